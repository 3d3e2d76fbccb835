// KeptFolder: a folder that is found again though it was renamed, because it is kept open.
#pragma once

#include <filesystem>

#include "base/fd.h"

namespace lockstep {

class KeptFolder {
 public:
  // A folder that cannot be opened is looked for under its path.
  explicit KeptFolder(std::filesystem::path path);

  // Leads to the folder, for this process alone. Its first path once it was removed.
  std::filesystem::path path() const;

 private:
  std::filesystem::path path_;
  Fd folder_;
};

}  // namespace lockstep

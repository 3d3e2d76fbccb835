// OpenFolder: a folder that is found again after a rename, because it is kept open.
#pragma once

#include <filesystem>

#include "base/os/fd.h"

namespace lockstep::host {

class OpenFolder {
 public:
  // If the folder cannot be opened, its path is used.
  explicit OpenFolder(std::filesystem::path path);

  // A path to the folder, valid in this process. Its first path if it was removed.
  std::filesystem::path path() const;

 private:
  std::filesystem::path path_;
  Fd folder_;
};

}  // namespace lockstep::host

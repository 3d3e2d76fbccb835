// Reading checkpoints. Nothing is believed: a checkpoint counts only if its manifest fits together
// and every file has the size and the checksum that the manifest gives it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/result.h"
#include "train/checkpoint/manifest.h"
#include "train/shard.h"

namespace lockstep {

class SavedCheckpoint {
 public:
  // corrupt if it is torn or altered.
  static Result<SavedCheckpoint> open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const Manifest& manifest() const { return manifest_; }

  // Fills tensors of these names. All are checked first: where one is missing, or its shape or type
  // differs, nothing has been written and the error names it.
  Result<void> read(const std::vector<NamedTensor>& tensors) const;

 private:
  SavedCheckpoint(std::filesystem::path path, Manifest manifest)
      : path_(std::move(path)), manifest_(std::move(manifest)) {}

  std::filesystem::path path_;
  Manifest manifest_;
};

// The newest whole one; those skipped are logged with the reason. not_found if there is none.
Result<SavedCheckpoint> newest_checkpoint(const std::filesystem::path& folder);

}  // namespace lockstep

// Reading checkpoints. Nothing is believed: a checkpoint counts only if its manifest fits together,
// its files have their sizes, and every block that is read has its checksum.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "train/checkpoint/format/manifest.h"

namespace lockstep {

// Elements begin to end of a tensor of the manifest, and where their bytes shall go.
struct Wanted {
  const SavedTensor* tensor = nullptr;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::span<char> into;
};

// Called after each block of a long work, with how much is done.
using Watch = std::function<void(Bytes done)>;

class SavedCheckpoint {
 public:
  // Reads the manifest and looks at the files' sizes. corrupt if it is torn or altered.
  static Result<SavedCheckpoint> open(const std::filesystem::path& path);
  // For who was told the manifest by somebody who opened it.
  SavedCheckpoint(std::filesystem::path path, Manifest manifest)
      : path_(std::move(path)), manifest_(std::move(manifest)) {}

  const std::filesystem::path& path() const { return path_; }
  const Manifest& manifest() const { return manifest_; }

  // Reads exactly what is wanted, in the order of files and offsets, and checks all that it reads.
  Result<void> read(const std::vector<Wanted>& wanted) const;
  // Reads every byte of every file.
  Result<void> verify(const Watch& watch = nullptr) const;

 private:
  std::filesystem::path path_;
  Manifest manifest_;
};

// The newest that opens; those skipped are logged with the reason. not_found if there is none.
Result<SavedCheckpoint> newest_checkpoint(const std::filesystem::path& folder);

}  // namespace lockstep

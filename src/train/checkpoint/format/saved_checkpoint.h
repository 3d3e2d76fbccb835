// Reads checkpoints and checks everything: a checkpoint is valid only if its manifest is
// consistent, its files have their sizes, and every block that is read has its checksum.
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

namespace lockstep::train {

// Elements begin to end of a tensor of the manifest, and the destination of their bytes.
struct TensorRead {
  const SavedTensor* tensor = nullptr;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::span<char> into;
};

// Called after each block of a long operation, with the bytes done so far.
using ProgressCallback = std::function<void(Bytes done)>;

class SavedCheckpoint {
 public:
  // Reads the manifest and checks the files' sizes. corrupt if it is torn or altered.
  static Result<SavedCheckpoint> open(const std::filesystem::path& path);
  // For a rank that received the manifest from the rank that opened it.
  SavedCheckpoint(std::filesystem::path path, Manifest manifest)
      : path_(std::move(path)), manifest_(std::move(manifest)) {}

  const std::filesystem::path& path() const { return path_; }
  const Manifest& manifest() const { return manifest_; }

  // Reads exactly the requested parts, in the order of files and offsets, and checks all that it
  // reads.
  Result<void> read(const std::vector<TensorRead>& wanted) const;
  // Reads every byte of the file with this name; nothing to check if the manifest has no such file.
  Result<void> verify_file(const std::string& name) const;
  // Reads every byte of every file.
  Result<void> verify(const ProgressCallback& watch = nullptr) const;

 private:
  std::filesystem::path path_;
  Manifest manifest_;
};

// The newest that opens; those skipped are logged with the reason. not_found if there is none.
Result<SavedCheckpoint> newest_checkpoint(const std::filesystem::path& folder);

}  // namespace lockstep::train

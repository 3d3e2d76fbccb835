// The files that hold tensors: their bytes. Each block of kBlockBytes has a checksum, which the
// manifest keeps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/os/fd.h"
#include "base/result.h"
#include "train/checkpoint/format/manifest.h"
#include "train/checkpoint/format/tensor_file/hash.h"

namespace lockstep::train {

// Writes a file from its beginning to its end. Replaces an existing file.
class DataWriter {
 public:
  // Memory with this alignment is written past the kernel's cache: no copy, no work for the
  // processor, and the disk works from the first byte on.
  static constexpr std::size_t kPage = 4096;
  // For bytes that are still being copied, in order: returns how many are available, once there are
  // at least `count`. Two threads call it.
  using WaitForBytes = std::function<std::size_t(std::size_t count)>;

  static Result<DataWriter> create(const std::filesystem::path& path);
  // The same past the cache, as long as each append begins and ends at a page boundary. It uses the
  // cache from the first append that does not, or if the file system does not support it.
  static Result<DataWriter> create_direct(const std::filesystem::path& path);

  std::int64_t size() const { return file_.size; }
  Result<void> append(std::string_view bytes);
  Result<void> append(std::string_view bytes, const WaitForBytes& coming);
  // Zeros up to the next slice.
  Result<void> align();
  // Durable when it returns, with the file's name in its folder.
  Result<SavedFile> finish() &&;

 private:
  DataWriter(std::filesystem::path path, Fd fd, bool past_cache);
  Result<void> write(std::string_view bytes);
  Result<std::size_t> write_direct(std::string_view bytes);
  void sum(std::string_view bytes);
  void close_block();

  std::filesystem::path path_;
  Fd fd_;
  bool direct_;  // so far
  Hash block_;
  SavedFile file_;
};

// Reads parts of a file and checks all blocks that they touch. A block that contains several small
// parts is read once, if they are read in order.
class DataReader {
 public:
  // corrupt if it is not a regular file or does not have the size that was written.
  static Result<DataReader> open(const std::filesystem::path& path, const SavedFile& file);

  // Fills `into` with the bytes from `offset` on, which lie within the file's size.
  Result<void> read(std::int64_t offset, std::span<char> into);

 private:
  DataReader(Fd fd, SavedFile file) : fd_(std::move(fd)), file_(std::move(file)) {}
  Result<void> read_block(std::int64_t block, std::span<char> into);
  std::int64_t block_size(std::int64_t block) const;

  Fd fd_;
  SavedFile file_;
  std::int64_t cached_block_ = -1;  // the block that cached_bytes_ holds
  std::vector<char> cached_bytes_;
};

}  // namespace lockstep::train

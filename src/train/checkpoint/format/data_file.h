// The files that hold tensors: bytes, and of each block of kBlockBytes a checksum, which the
// manifest keeps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "train/checkpoint/format/hash.h"
#include "train/checkpoint/format/manifest.h"

namespace lockstep {

// Writes a file from its beginning to its end. One that is there already is replaced.
class DataWriter {
 public:
  // Of memory that begins here the kernel can write past its cache: no copy, and no work for the
  // processor, while the disk is at work from the first byte on.
  static constexpr std::size_t kPage = 4096;
  // Of bytes that are still coming, from the beginning on: how many are there, which is told once
  // there are `count` at least. Two threads ask.
  using Coming = std::function<std::size_t(std::size_t count)>;

  static Result<DataWriter> create(const std::filesystem::path& path);
  // The same past the cache, as long as what is appended begins and ends at pages; from the first
  // that does not, or where the file system cannot, by the cache.
  static Result<DataWriter> create_past_cache(const std::filesystem::path& path);

  std::int64_t size() const { return file_.size; }
  Result<void> append(std::string_view bytes);
  Result<void> append(std::string_view bytes, const Coming& coming);
  // Zeros up to the next slice.
  Result<void> align();
  // Durable when it returns, with the file's name in its folder.
  Result<SavedFile> finish() &&;

 private:
  DataWriter(std::filesystem::path path, Fd fd, bool past_cache);
  Result<void> write(std::string_view bytes);
  Result<std::size_t> write_past_cache(std::string_view bytes);
  void sum(std::string_view bytes);
  void close_block();

  std::filesystem::path path_;
  Fd fd_;
  bool past_cache_;  // so far
  Hash block_;
  SavedFile file_;
};

// Reads parts of a file and checks all blocks that they touch. A block that several small parts lie
// in is read once, if they come in order.
class DataReader {
 public:
  // corrupt if it is no regular file or has another size than was written.
  static Result<DataReader> open(const std::filesystem::path& path, const SavedFile& file);

  // Fills `into` with the bytes from `offset` on, which lie within the file's size.
  Result<void> read(std::int64_t offset, std::span<char> into);

 private:
  DataReader(Fd fd, SavedFile file) : fd_(std::move(fd)), file_(std::move(file)) {}
  Result<void> read_block(std::int64_t block, std::span<char> into);
  std::int64_t block_size(std::int64_t block) const;

  Fd fd_;
  SavedFile file_;
  std::int64_t kept_ = -1;  // the block that kept_bytes_ holds
  std::vector<char> kept_bytes_;
};

}  // namespace lockstep

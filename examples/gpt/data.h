// Text as training data: windows of bytes and, for each byte, the one that follows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include <ATen/core/Tensor.h>
#include <lockstep/result.h>

namespace gpt {

struct Batch {
  at::Tensor bytes;  // [windows, context], int64
  at::Tensor next;   // the same, one byte later
};

class Text {
 public:
  explicit Text(at::Tensor bytes) : bytes_(std::move(bytes)) {}

  // Windows may start at any byte that has a whole window and its next byte after it.
  std::int64_t windows(std::int64_t context) const { return bytes_.size(0) - context; }
  // The windows that start at the given bytes.
  Batch batch(const std::vector<std::int64_t>& starts, std::int64_t context) const;

 private:
  at::Tensor bytes_;  // one-dimensional, int64
};

struct Corpus {
  Text train;
  Text held_out;
};

// A folder with train.txt and heldout.txt; or a file, or a folder of *.txt (joined in the order of
// their names), of which the last twentieth is held out. Either part must have more than `context`
// bytes.
lockstep::Result<Corpus> read_corpus(const std::filesystem::path& path, std::int64_t context);

}  // namespace gpt

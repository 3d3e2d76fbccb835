// The header of a safetensors file (https://github.com/huggingface/safetensors): 8 bytes that say
// how long the JSON behind them is, little-endian; the JSON, padded with blanks; then the tensors'
// bytes without holes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "train/checkpoint/format/type.h"

namespace lockstep {

struct SafeTensor {
  std::string name;
  ElementType type = ElementType::float32;
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0;  // of its bytes, behind the header
  std::int64_t end = 0;
  friend bool operator==(const SafeTensor&, const SafeTensor&) = default;
};

struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::vector<SafeTensor> tensors;
};

// Bytes of the length that a file begins with.
constexpr std::int64_t kSafetensorsPrefix = 8;

// Gives the tensors their places, those of large elements first, so that each is aligned; the
// file's beginning up to the first tensor's bytes.
std::string lay_out_safetensors(SafetensorsHeader& header);

// Of a file's first 8 bytes: how long the JSON is. corrupt above 100 MB, the format's own limit.
Result<std::int64_t> safetensors_header_size(std::string_view prefix);
// The JSON, where `bytes` follow it. corrupt, naming the tensor, where it does not fit together.
Result<SafetensorsHeader> parse_safetensors(std::string_view words, std::int64_t bytes);

}  // namespace lockstep

// The header of a safetensors file (https://github.com/huggingface/safetensors): 8 bytes,
// little-endian, with the length of the JSON after them; the JSON, padded with blanks; then the
// tensors' bytes without holes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "train/checkpoint/format/tensor_file/data_type_names.h"

namespace lockstep::train {

struct SafeTensor {
  std::string name;
  DataType type = DataType::float32;
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0;  // of its bytes, after the header
  std::int64_t end = 0;
  friend bool operator==(const SafeTensor&, const SafeTensor&) = default;
};

struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::vector<SafeTensor> tensors;
};

// Bytes of the length at the start of a file.
constexpr std::int64_t kSafetensorsPrefix = 8;

// Assigns offsets to the tensors, those of large elements first, so that each is aligned. Returns
// the file's start up to the first tensor's bytes.
std::string lay_out_safetensors(SafetensorsHeader& header);

// The length of the JSON from a file's first 8 bytes. corrupt above 100 MB, the format's own limit.
Result<std::int64_t> safetensors_header_size(std::string_view prefix);
// Parses the JSON, after which `bytes` follow. corrupt, naming the tensor, if it is inconsistent.
Result<SafetensorsHeader> parse_safetensors(std::string_view json_text, std::int64_t bytes);

}  // namespace lockstep::train

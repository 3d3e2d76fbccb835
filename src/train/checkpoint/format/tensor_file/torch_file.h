// A file as torch.save writes a dict of tensors: a ZIP archive of data.pkl, which describes the
// tensors, and an entry of bytes for each tensor. torch.load reads it with weights_only=True: the
// pickle refers only to torch's own functions that make a tensor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/checkpoint/format/tensor_file/data_type_names.h"

namespace lockstep::train {

struct TorchTensor {
  std::string name;
  DataType type = DataType::float32;
  std::vector<std::int64_t> shape;
};

// data.pkl of a dict of these; the i-th tensor's bytes are the entry data/i. Protocol 2.
std::string torch_pickle(const std::vector<TorchTensor>& tensors);

}  // namespace lockstep::train

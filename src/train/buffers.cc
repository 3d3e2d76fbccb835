#include "train/buffers.h"

#include <algorithm>
#include <utility>

#include <ATen/ops/empty.h>

#include "base/check.h"

namespace lockstep {

at::Tensor Buffers::take() {
  most_ = std::max(most_, ++in_use_);
  if (!free_.empty()) {
    auto buffer = std::move(free_.back());
    free_.pop_back();
    return buffer;
  }
  auto lent = world_.allocate(size_.count(), at::kByte, device_);
  if (lent) return *std::move(lent);
  // What the backend has not is still memory: transfers copy it on their way.
  return at::empty({size_.count()}, at::TensorOptions().dtype(at::kByte).device(device_));
}

void Buffers::give_back(at::Tensor buffer) {
  LS_CHECK(in_use_ > 0 && buffer.defined());
  --in_use_;
  free_.push_back(std::move(buffer));
}

}  // namespace lockstep

#include "train/engine/buffer_pool.h"

#include <algorithm>
#include <utility>

#include <ATen/ops/empty.h>

#include "base/check.h"

namespace lockstep::train {

at::Tensor BufferPool::acquire() {
  in_use_max_ = std::max(in_use_max_, ++in_use_);
  if (!free_.empty()) {
    auto buffer = std::move(free_.back());
    free_.pop_back();
    return buffer;
  }
  auto lent = world_.allocate(size_.count(), at::kByte, device_);
  if (lent) return *std::move(lent);
  // Memory outside the backend's also works: transfers copy it.
  return at::empty({size_.count()}, at::TensorOptions().dtype(at::kByte).device(device_));
}

void BufferPool::release(at::Tensor buffer) {
  LS_CHECK(in_use_ > 0 && buffer.defined());
  --in_use_;
  free_.push_back(std::move(buffer));
}

}  // namespace lockstep::train

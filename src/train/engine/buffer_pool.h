// BufferPool: temporary memory: for parameters from gather to release, for gradients until they are
// reduced. All buffers have one size, so that each fits any use, and a released buffer is reused
// first: there are never more than were in use at once.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/units.h"
#include "train/group/comm.h"

namespace lockstep::train {

class BufferPool {
 public:
  BufferPool(const Comm& world, Bytes size, at::Device device)
      : world_(world), size_(size), device_(device) {}

  // One-dimensional, of bytes, in the backend's memory if the backend provides some. Contents are
  // undefined. Throws, as torch does, when there is no memory: its callers cannot return an error.
  at::Tensor acquire();
  void release(at::Tensor buffer);

  // The most that were in use at once.
  int in_use_max() const { return in_use_max_; }

 private:
  Comm world_;
  Bytes size_;
  at::Device device_;
  std::vector<at::Tensor> free_;
  int in_use_ = 0;
  int in_use_max_ = 0;
};

}  // namespace lockstep::train

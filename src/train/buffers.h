// Buffers: memory that is needed for a while: by parameters from gather to release, by gradients
// until they are reduced. All are of one size, so that any serves any, and what was given back is
// taken next: there are never more than were in use at once.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/units.h"
#include "train/comm.h"

namespace lockstep {

class Buffers {
 public:
  Buffers(const Comm& world, Bytes size, at::Device device)
      : world_(world), size_(size), device_(device) {}

  // One-dimensional, of bytes, in the backend's memory where it lends some. Contents are undefined.
  // Throws, as torch does, when there is no memory: it is called where nothing can be returned.
  at::Tensor take();
  void give_back(at::Tensor buffer);

  // The most that were in use at once.
  int most() const { return most_; }

 private:
  Comm world_;
  Bytes size_;
  at::Device device_;
  std::vector<at::Tensor> free_;
  int in_use_ = 0;
  int most_ = 0;
};

}  // namespace lockstep

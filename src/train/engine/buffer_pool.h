// BufferPool: temporary memory: for parameters from gather to release, for gradients until they are
// reduced. All buffers have one size, so that each fits any use, and a released buffer is reused
// first: there are never more than were in use at once.
//
// On a device a buffer is released while kernels that use it are still queued. So it remembers
// events of the streams that used it, of the one that acquired it and the one that released it,
// and the stream that acquires it next waits for them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

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
  // Every transfer of the buffer has been waited for.
  void release(const at::Tensor& memory);

  // The most that were in use at once.
  int in_use_max() const { return in_use_max_; }

  // For tests: released buffers are filled with NaN once their remembered uses are over.
  static void poison_released_for_test(bool on) { poison_ = on; }

 private:
  struct Buffer {
    at::Tensor memory;
    std::optional<c10::Stream> stream = {};  // that acquired it, on a device
    std::vector<c10::Event> uses = {};
  };

  at::Tensor allocate();
  void remember_uses(Buffer& buffer) const;
  void poison(Buffer& buffer);

  Comm world_;
  Bytes size_;
  at::Device device_;
  std::vector<Buffer> free_;
  std::vector<Buffer> in_use_;
  int in_use_max_ = 0;
  std::optional<c10::Stream> poison_stream_;
  static inline bool poison_ = false;
};

}  // namespace lockstep::train

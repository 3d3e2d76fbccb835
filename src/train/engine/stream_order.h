// StreamOrder: work of one kind that several streams of a device queue, in the order of the calls.
// Autograd calls hooks on the stream of the forward operation, and on the one that was current when
// a parameter's accumulator was made. A transfer waits for the current stream only.
#pragma once

#include <optional>

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace lockstep::train {

class StreamOrder {
 public:
  explicit StreamOrder(c10::Device device) : device_(device) {}

  // The current stream waits for what the stream of the last call has queued.
  void join() {
    if (device_.is_cpu()) return;
    const auto here = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
    if (last_ && *last_ != here) {
      c10::Event queued(device_.type());
      queued.record(*last_);
      queued.block(here);
    }
    last_ = here;
  }

 private:
  c10::Device device_;
  std::optional<c10::Stream> last_;
};

}  // namespace lockstep::train

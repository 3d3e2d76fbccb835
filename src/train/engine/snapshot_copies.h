// SnapshotCopies: the background copies of the part of the state that changes only in the
// optimizer's step. Forward and backward go on meanwhile; a writer waits for the copies first. For
// copies from a device its stream waits, not the host.
#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <utility>

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "base/check.h"
#include "base/units.h"

namespace lockstep::train {

// Used by the thread that trains.
class SnapshotCopies {
 public:
  // A copy reads until `done` is ready; copies added before are waited for.
  void add(std::shared_future<void> done) {
    wait();
    done_ = std::move(done);
  }

  // Copies from a device, which read until the event.
  void add(std::shared_ptr<const c10::Event> device_copies) {
    wait();
    device_copies_ = std::move(device_copies);
  }

  // Waits until no copy reads any more: as long as a copy of the state takes. After copies from a
  // device, what the caller queues on the current stream waits for them.
  void wait() {
    if (device_copies_) {
      const c10::impl::VirtualGuardImpl device(device_copies_->device_type());
      device_copies_->block(device.getStream(device_copies_->device()));
      device_copies_.reset();
    }
    if (!done_.valid()) return;
    const auto begun = std::chrono::steady_clock::now();
    LS_CHECK(done_.wait_for(kBound) == std::future_status::ready, "a copy in memory ends");
    done_ = {};
    wait_time_ += std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - begun);
  }

  // The time that the training has waited since the last call of this.
  Duration take_wait_time() { return std::exchange(wait_time_, Duration(0)); }

 private:
  static constexpr auto kBound = std::chrono::minutes(30);

  std::shared_future<void> done_;
  std::shared_ptr<const c10::Event> device_copies_;
  Duration wait_time_{0};
};

}  // namespace lockstep::train

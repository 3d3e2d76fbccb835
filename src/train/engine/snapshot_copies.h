// SnapshotCopies: the background copies of the part of the state that changes only in the
// optimizer's step. Forward and backward go on meanwhile; a writer waits for the copies first.
#pragma once

#include <chrono>
#include <future>
#include <utility>

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

  // Waits until no copy reads any more: as long as a copy of the state takes.
  void wait() {
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
  Duration wait_time_{0};
};

}  // namespace lockstep::train

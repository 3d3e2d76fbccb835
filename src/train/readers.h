// Readers: who copies, in the background, what of the state changes in the optimizer's step only.
// Forward and backward go on meanwhile; who changes it waits for them first.
#pragma once

#include <chrono>
#include <future>
#include <utility>

#include "base/check.h"
#include "base/units.h"

namespace lockstep {

// Used by the thread that trains.
class Readers {
 public:
  // Somebody reads until `done` is ready; what was added before is waited for.
  void add(std::shared_future<void> done) {
    await();
    done_ = std::move(done);
  }

  // Until nobody reads any more: as long as a copy of the state takes.
  void await() {
    if (!done_.valid()) return;
    const auto begun = std::chrono::steady_clock::now();
    LS_CHECK(done_.wait_for(kBound) == std::future_status::ready, "a copy in memory ends");
    done_ = {};
    waited_ += std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - begun);
  }

  // How long the training has waited since this was asked last.
  Duration take_waited() { return std::exchange(waited_, Duration(0)); }

 private:
  static constexpr auto kBound = std::chrono::minutes(30);

  std::shared_future<void> done_;
  Duration waited_{0};
};

}  // namespace lockstep

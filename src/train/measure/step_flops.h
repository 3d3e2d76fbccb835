// StepFlops: the floating-point operations of a training step, from a step that is counted now and
// then: the 10th, and one each minute.
//
// The median of the last three counts holds, so that a step with an evaluation in it does not stand
// for all steps of a minute.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace lockstep::train {

// Used by the thread that trains.
class StepFlops {
 public:
  // A step ends, and the next one begins. The operations of a step of this rank; nothing until the
  // first count, or if the steps have none that count.
  std::optional<double> end_step(std::chrono::steady_clock::time_point now);

 private:
  std::optional<double> usual() const;

  static constexpr std::size_t kCounts = 3;
  std::int64_t steps_ = 0;
  bool counts_step_ = false;
  std::chrono::steady_clock::time_point next_count_{};
  std::array<double, kCounts> counts_{};  // a ring
  std::size_t counted_ = 0;               // steps
};

}  // namespace lockstep::train

// What a training says on its way: metrics to the agent, a line every ten steps to the user.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "report/reporter.h"

namespace lockstep::gpt {

class Progress {
 public:
  // Only rank 0 speaks: what it says is of all ranks. first: the step that training begins after.
  Progress(Reporter& reporter, int rank, std::int64_t first, std::int64_t steps,
           std::int64_t bytes_a_step);

  // loss and held_out: means over all ranks.
  void step(std::int64_t step, double loss, double learning_rate, double gradient_norm);
  void held_out(std::int64_t step, double loss);
  // What has happened, told by whichever rank is to tell it.
  void news(const std::string& story);
  // Of the ranks that are left another may speak from now on, and the batch may be another.
  void go_on(bool speaks, std::int64_t bytes_a_step) {
    speaks_ = speaks;
    bytes_a_step_ = bytes_a_step;
  }
  // A last line. Says so if the training was stopped before its end.
  void summary(std::int64_t step) const;

 private:
  using Clock = std::chrono::steady_clock;

  Reporter& reporter_;
  bool speaks_;
  std::int64_t first_;
  std::int64_t steps_;
  std::int64_t bytes_a_step_;
  std::int64_t bytes_ = 0;  // of all steps
  Clock::time_point begun_ = Clock::now();
  Clock::time_point last_ = begun_;
  double loss_ = 0;
  std::optional<double> held_out_;
};

}  // namespace lockstep::gpt

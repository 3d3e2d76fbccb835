// Reports of a training: metrics to the agent, a line every ten steps to the user.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include <lockstep/report.h>

namespace gpt {

class ProgressPrinter {
 public:
  // Only rank 0 reports, for all ranks. first: the step after which the training begins.
  ProgressPrinter(lockstep::Reporter& reporter, int rank, std::int64_t first, std::int64_t steps,
                  std::int64_t bytes_a_step);

  // loss and held_out: means over all ranks.
  void step(std::int64_t step, double loss, double learning_rate, double gradient_norm);
  void held_out(std::int64_t step, double loss);
  // An event of the training, from the rank that reports it.
  void print_event(const std::string& description);
  // Among the remaining ranks another may report from now on, and the batch may differ.
  void continue_with(bool speaks, std::int64_t bytes_a_step) {
    prints_ = speaks;
    bytes_a_step_ = bytes_a_step;
  }
  // A last line. Mentions if the training was stopped before its end.
  void summary(std::int64_t step) const;

 private:
  using Clock = std::chrono::steady_clock;

  lockstep::Reporter& reporter_;
  bool prints_;
  std::int64_t first_;
  std::int64_t steps_;
  std::int64_t bytes_a_step_;
  std::int64_t bytes_ = 0;  // of all steps
  Clock::time_point begun_ = Clock::now();
  Clock::time_point last_ = begun_;
  double loss_ = 0;
  std::optional<double> held_out_;
};

}  // namespace gpt

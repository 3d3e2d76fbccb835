#include "progress.h"

#include <cstdio>
#include <string>

namespace gpt {
namespace {

double seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

template <class... Values>
void say(const char* format, const Values&... values) {
  std::printf(format, values...);
  std::puts("");
  std::fflush(stdout);
}

}  // namespace

ProgressPrinter::ProgressPrinter(lockstep::Reporter& reporter, int rank, std::int64_t first,
                                 std::int64_t steps, std::int64_t bytes_a_step)
    : reporter_(reporter),
      prints_(rank == 0),
      first_(first),
      steps_(steps),
      bytes_a_step_(bytes_a_step) {}

void ProgressPrinter::step(std::int64_t step, double loss, double learning_rate,
                           double gradient_norm) {
  bytes_ += bytes_a_step_;
  if (!prints_) return;
  const auto now = Clock::now();
  const double speed = static_cast<double>(bytes_a_step_) / seconds(now - last_);
  last_ = now;
  loss_ = loss;
  reporter_.metric(step, "loss", loss);
  reporter_.metric(step, "tokens_per_second", speed);
  reporter_.metric(step, "learning_rate", learning_rate);
  reporter_.metric(step, "gradient_norm", gradient_norm);
  reporter_.progress(step, steps_);
  if (step % 10 == 0 || step == first_ + 1 || step == steps_)
    say("step %5ld of %ld  loss %.3f  %6.0f tokens/s  learning rate %.2e", static_cast<long>(step),
        static_cast<long>(steps_), loss, speed, learning_rate);
}

void ProgressPrinter::held_out(std::int64_t step, double loss) {
  held_out_ = loss;
  if (!prints_) return;
  reporter_.metric(step, "held_out_loss", loss);
  say("step %5ld of %ld  held-out loss %.3f nats a byte", static_cast<long>(step),
      static_cast<long>(steps_), loss);
  last_ = Clock::now();
}

void ProgressPrinter::print_event(const std::string& description) {
  say("%s", description.c_str());
}

void ProgressPrinter::summary(std::int64_t step) const {
  if (!prints_) return;
  const double took = seconds(Clock::now() - begun_);
  const double speed = static_cast<double>(bytes_) / took;
  std::printf("%s at step %ld of %ld: %ld steps in %.1f s, %.0f tokens/s, loss %.3f",
              step < steps_ ? "stopped" : "finished", static_cast<long>(step),
              static_cast<long>(steps_), static_cast<long>(step - first_), took, speed, loss_);
  if (held_out_) std::printf(", held-out loss %.3f", *held_out_);
  std::puts("");
  std::fflush(stdout);
}

}  // namespace gpt

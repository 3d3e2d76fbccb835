#include "progress.h"

#include <cstdio>
#include <string>

#include "base/format.h"

namespace lockstep::gpt {
namespace {

double seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

void say(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

}  // namespace

ProgressPrinter::ProgressPrinter(report::Reporter& reporter, int rank, std::int64_t first,
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
  reporter_.metrics(step, {{"loss", loss},
                           {"tokens_per_second", speed},
                           {"learning_rate", learning_rate},
                           {"gradient_norm", gradient_norm}});
  reporter_.progress(step, steps_);
  if (step % 10 == 0 || step == first_ + 1 || step == steps_)
    say(format("step {:>5} of {}  loss {:.3f}  {:>6.0f} tokens/s  learning rate {:.2e}", step,
               steps_, loss, speed, learning_rate));
}

void ProgressPrinter::held_out(std::int64_t step, double loss) {
  held_out_ = loss;
  if (!prints_) return;
  reporter_.metrics(step, {{"held_out_loss", loss}});
  say(format("step {:>5} of {}  held-out loss {:.3f} nats a byte", step, steps_, loss));
  last_ = Clock::now();
}

void ProgressPrinter::print_event(const std::string& description) { say(description); }

void ProgressPrinter::summary(std::int64_t step) const {
  if (!prints_) return;
  const double took = seconds(Clock::now() - begun_);
  const double speed = static_cast<double>(bytes_) / took;
  say(format("{} at step {} of {}: {} steps in {:.1f} s, {:.0f} tokens/s, loss {:.3f}{}",
             step < steps_ ? "stopped" : "finished", step, steps_, step - first_, took, speed,
             loss_, held_out_ ? format(", held-out loss {:.3f}", *held_out_) : ""));
}

}  // namespace lockstep::gpt

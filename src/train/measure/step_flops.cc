#include "train/measure/step_flops.h"

#include <algorithm>

#include "train/measure/flop_counter.h"

namespace lockstep::train {
namespace {

// Before it, torch.compile compiles and buffers are made.
constexpr std::int64_t kFirstCountedStep = 10;
constexpr std::chrono::minutes kCountInterval{1};

}  // namespace

std::optional<double> StepFlops::end_step(std::chrono::steady_clock::time_point now) {
  if (counts_step_) {
    counts_step_ = false;
    next_count_ = now + kCountInterval;
    if (const auto flops = end_flop_count()) counts_[counted_++ % kCounts] = *flops;
  }
  ++steps_;
  if (steps_ + 1 >= kFirstCountedStep && now >= next_count_) counts_step_ = begin_flop_count();
  return usual();
}

std::optional<double> StepFlops::usual() const {
  auto sorted = counts_;
  const auto end = sorted.begin() + std::min(counted_, kCounts);
  if (sorted.begin() == end) return std::nullopt;
  std::sort(sorted.begin(), end);
  const double median = sorted[(std::min(counted_, kCounts) - 1) / 2];
  return median > 0 ? std::optional(median) : std::nullopt;
}

}  // namespace lockstep::train

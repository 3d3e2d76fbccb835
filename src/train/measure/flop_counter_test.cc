// The count of operations, beside the formulas written out. python/tests/test_step_times.py
// compares it with torch's own counter.
#include "train/measure/flop_counter.h"

#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include "train/engine/recompute.h"
#include "train/measure/step_flops.h"

namespace lockstep::train::flop_counter_test {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr double kProduct = 2 * 3 * 4 * 5;

at::Tensor multiply() { return at::mm(at::ones({3, 4}), at::ones({4, 5})); }

TEST(FlopCounter, CountsFromBeginToEndAndObservesNothingOtherwise) {
  multiply();
  EXPECT_FALSE(end_flop_count());
  EXPECT_TRUE(begin_flop_count());
  multiply();
  EXPECT_FALSE(begin_flop_count()) << "it counts already";
  EXPECT_EQ(end_flop_count(), kProduct);
  EXPECT_FALSE(at::hasCallbacks());
  EXPECT_TRUE(begin_flop_count());
  EXPECT_EQ(end_flop_count(), 0) << "each count begins from zero";
}

TEST(FlopCounter, CountsNoOperatorsOfOtherThreads) {
  EXPECT_TRUE(begin_flop_count());
  std::thread([] {
    multiply();
    EXPECT_FALSE(end_flop_count()) << "another thread's";
  }).join();
  EXPECT_EQ(end_flop_count(), 0);
}

TEST(FlopCounter, ABlockThatIsComputedAgainCountsOnce) {
  const auto weight = at::ones({2, 2}).requires_grad_();
  const auto forward = [&](const std::vector<at::Tensor>& inputs) {
    return at::linear(inputs.front(), weight);
  };
  EXPECT_TRUE(begin_flop_count());
  const auto output = run_recomputed({at::ones({1, 2})}, /*trainable=*/true, at::kCPU,
                                     {.forward = forward, .begin = [] {}, .end = nullptr});
  output.sum().backward();
  EXPECT_EQ(end_flop_count(), 2 * (2 * 1 * 2 * 2)) << "the output and the weight's gradient";
}

// Steps of ten seconds each.
class Steps {
 public:
  // The products that the step computes, and its end.
  std::optional<double> take(int products) {
    for (int i = 0; i < products; ++i) multiply();
    return flops_.end_step(now_ += seconds(10));
  }

 private:
  StepFlops flops_;
  steady_clock::time_point now_{};
};

TEST(StepFlops, CountsTheTenthStepAndThenOneAMinute) {
  Steps steps;
  for (int step = 1; step <= 9; ++step) {
    EXPECT_FALSE(at::hasCallbacks()) << step;
    EXPECT_FALSE(steps.take(1)) << step;
  }
  EXPECT_TRUE(at::hasCallbacks());
  EXPECT_EQ(steps.take(2), 2 * kProduct);
  for (int step = 11; step <= 16; ++step) {
    EXPECT_FALSE(at::hasCallbacks()) << step;
    EXPECT_EQ(steps.take(7), 2 * kProduct) << step;
  }
  EXPECT_TRUE(at::hasCallbacks());
  EXPECT_EQ(steps.take(9), 2 * kProduct) << "an evaluation in one of two counted steps";
  for (int step = 18; step <= 23; ++step) steps.take(7);
  EXPECT_EQ(steps.take(3), 3 * kProduct) << "the median of 2, 9 and 3";
  EXPECT_FALSE(at::hasCallbacks());
}

TEST(StepFlops, StepsWithoutOperationsThatCountAreUnknown) {
  Steps steps;
  for (int step = 1; step <= 20; ++step) EXPECT_FALSE(steps.take(0)) << step;
}

}  // namespace
}  // namespace lockstep::train::flop_counter_test

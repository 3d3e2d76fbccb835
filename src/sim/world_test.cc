#include "sim/world.h"

#include <gtest/gtest.h>

namespace lockstep::sim {
namespace {

class Seeds : public testing::TestWithParam<int> {};

TEST_P(Seeds, KeepWhatThePlatformPromises) {
  for (int i = 1; i <= 100; ++i) {
    const auto seed = static_cast<std::uint64_t>(GetParam() * 100 + i);
    const Verdict verdict = World({.seed = seed}).run();
    ASSERT_FALSE(verdict.violation) << *verdict.violation << "\n  again, with a trace: "
                                    << "build/bin/lockstep-sim --seed " << seed;
  }
}
INSTANTIATE_TEST_SUITE_P(AHundred, Seeds, testing::Range(0, 10));

}  // namespace
}  // namespace lockstep::sim

#include "train/checkpoint/cadence.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using std::chrono::hours, std::chrono::milliseconds, std::chrono::seconds;

constexpr Cadence::Moment kBegin{};

TEST(Cadence, IsTheSquareRootOfTwiceTheStallTimesTheTimeBetweenFailures) {
  Cadence cadence(hours(10), kBegin);
  cadence.saved(milliseconds(500), kBegin);
  EXPECT_NEAR(in_seconds(cadence.interval()), 189.7, 0.1);  // sqrt(2 * 0.5 * 36,000)
  EXPECT_FALSE(cadence.due(kBegin + seconds(189)));
  EXPECT_TRUE(cadence.due(kBegin + seconds(190)));
}

TEST(Cadence, ForMoreRanksIsShorter) {
  EXPECT_EQ(failure_time(16'384), Duration(hours(51'000)) / 16'384);
  Cadence few(failure_time(64), kBegin), many(failure_time(16'384), kBegin);
  for (auto* cadence : {&few, &many}) cadence->saved(milliseconds(100), kBegin);
  EXPECT_NEAR(in_seconds(few.interval()) / in_seconds(many.interval()), 16, 0.1);
}

TEST(Cadence, BeginsSoonAndHasBounds) {
  Cadence cadence(hours(51'000), kBegin);
  EXPECT_EQ(cadence.interval(), Cadence::kIntervalMin);
  cadence.saved(Duration(0), kBegin);
  EXPECT_EQ(cadence.interval(), Cadence::kIntervalMin);
  cadence.saved(seconds(60), kBegin);
  EXPECT_EQ(cadence.interval(), Cadence::kIntervalMax);
}

TEST(Cadence, ForgetsASingleLongStall) {
  Cadence cadence(hours(10), kBegin);
  cadence.saved(seconds(8), kBegin);
  for (int i = 0; i < 20; ++i) cadence.saved(milliseconds(500), kBegin);
  EXPECT_NEAR(in_seconds(cadence.interval()), 189.7, 1);
}

}  // namespace
}  // namespace lockstep

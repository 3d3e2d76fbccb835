#include "train/checkpoint/checkpoint_interval.h"

#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

using std::chrono::hours, std::chrono::milliseconds, std::chrono::seconds;

constexpr CheckpointInterval::Moment kBegin{};

TEST(CheckpointInterval, IsTheSquareRootOfTwiceTheStallTimesTheTimeBetweenFailures) {
  CheckpointInterval cadence(hours(10), kBegin);
  cadence.record_save(milliseconds(500), kBegin);
  EXPECT_NEAR(in_seconds(cadence.interval()), 189.7, 0.1);  // sqrt(2 * 0.5 * 36,000)
  EXPECT_FALSE(cadence.due(kBegin + seconds(189)));
  EXPECT_TRUE(cadence.due(kBegin + seconds(190)));
}

TEST(CheckpointInterval, ForMoreRanksIsShorter) {
  EXPECT_EQ(mean_time_between_failures(16'384), Duration(hours(51'000)) / 16'384);
  CheckpointInterval few(mean_time_between_failures(64), kBegin),
      many(mean_time_between_failures(16'384), kBegin);
  for (auto* cadence : {&few, &many}) cadence->record_save(milliseconds(100), kBegin);
  EXPECT_NEAR(in_seconds(few.interval()) / in_seconds(many.interval()), 16, 0.1);
}

TEST(CheckpointInterval, BeginsSoonAndHasBounds) {
  CheckpointInterval cadence(hours(51'000), kBegin);
  EXPECT_EQ(cadence.interval(), CheckpointInterval::kIntervalMin);
  cadence.record_save(Duration(0), kBegin);
  EXPECT_EQ(cadence.interval(), CheckpointInterval::kIntervalMin);
  cadence.record_save(seconds(60), kBegin);
  EXPECT_EQ(cadence.interval(), CheckpointInterval::kIntervalMax);
}

TEST(CheckpointInterval, ForgetsASingleLongStall) {
  CheckpointInterval cadence(hours(10), kBegin);
  cadence.record_save(seconds(8), kBegin);
  for (int i = 0; i < 20; ++i) cadence.record_save(milliseconds(500), kBegin);
  EXPECT_NEAR(in_seconds(cadence.interval()), 189.7, 1);
}

}  // namespace
}  // namespace lockstep::train

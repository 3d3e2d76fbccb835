#include "platform/agent/core/progress_watch.h"

#include <chrono>

#include <gtest/gtest.h>

namespace lockstep::agent {
namespace {

using std::chrono::minutes;

TEST(Progress, OnlyARankThatHasReportedIsWatched) {
  ProgressWatch watch(minutes(30));
  EXPECT_FALSE(watch.next_timeout(minutes(1)));
  watch.record_progress(1, minutes(10));
  EXPECT_EQ(watch.next_timeout(minutes(11)), minutes(29));
  EXPECT_FALSE(watch.time_without_progress(0, minutes(100)));
  EXPECT_FALSE(watch.time_without_progress(1, minutes(39)));
  EXPECT_EQ(watch.time_without_progress(1, minutes(40)), minutes(30));
  EXPECT_EQ(watch.time_without_progress(1, minutes(45)), minutes(35));
  EXPECT_FALSE(watch.next_timeout(minutes(45)));
}

TEST(Progress, EachReportBeginsTheTimeAnewAndAnEndEndsIt) {
  ProgressWatch watch(minutes(30));
  watch.record_progress(0, minutes(0));
  watch.record_progress(1, minutes(5));
  watch.record_progress(0, minutes(20));
  EXPECT_EQ(watch.next_timeout(minutes(20)), minutes(15));
  EXPECT_FALSE(watch.time_without_progress(0, minutes(49)));
  EXPECT_TRUE(watch.time_without_progress(1, minutes(49)));
  watch.remove_rank(1);
  EXPECT_FALSE(watch.time_without_progress(1, minutes(49)));
}

TEST(Progress, WithoutATimeNobodyHangs) {
  ProgressWatch watch(minutes(0));
  watch.record_progress(0, minutes(0));
  EXPECT_FALSE(watch.time_without_progress(0, std::chrono::hours(1000)));
  EXPECT_FALSE(watch.next_timeout(minutes(1)));
}

}  // namespace
}  // namespace lockstep::agent

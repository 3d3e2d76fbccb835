// IdleWatch: windows with and without CPU time.
#include "platform/agent/core/idle_watch.h"

#include <gtest/gtest.h>

namespace lockstep::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(IdleWatch, ANodeThatComputesIsNotIdle) {
  IdleWatch watch;
  for (int second = 0; second <= 60; second += 2)
    watch.observe(milliseconds(20 * second), seconds(second));
  EXPECT_FALSE(watch.idle_since());
}

TEST(IdleWatch, ItIsIdleSinceTheBeginningOfTheFirstIdleWindow) {
  IdleWatch watch;
  EXPECT_FALSE(watch.observe(seconds(5), seconds(100)));
  EXPECT_FALSE(watch.observe(seconds(5), seconds(109))) << "the window has not ended";
  EXPECT_TRUE(watch.observe(seconds(5) + milliseconds(199), seconds(110)));
  EXPECT_EQ(watch.idle_since(), seconds(100));
  EXPECT_FALSE(watch.observe(seconds(5) + milliseconds(398), seconds(120)));
  EXPECT_EQ(watch.idle_since(), seconds(100));
}

TEST(IdleWatch, AUsedWindowEndsTheIdleTime) {
  IdleWatch watch;
  watch.observe(seconds(0), seconds(0));
  watch.observe(seconds(0), seconds(10));
  EXPECT_TRUE(watch.observe(seconds(1), seconds(20)));
  EXPECT_FALSE(watch.idle_since());
  watch.observe(seconds(1), seconds(30));
  EXPECT_EQ(watch.idle_since(), seconds(20));
}

TEST(IdleWatch, AReportedStepEndsTheIdleTime) {
  IdleWatch watch;
  watch.observe(seconds(0), seconds(0));
  watch.observe(seconds(0), seconds(10));
  EXPECT_TRUE(watch.record_use());
  EXPECT_FALSE(watch.record_use());
  EXPECT_FALSE(watch.observe(seconds(0), seconds(12)));
  EXPECT_TRUE(watch.observe(seconds(0), seconds(22)));
  EXPECT_EQ(watch.idle_since(), seconds(12));
}

TEST(IdleWatch, CpuTimeThatFellIsUse) {
  IdleWatch watch;
  watch.observe(seconds(9), seconds(0));
  watch.observe(seconds(9), seconds(10));
  EXPECT_TRUE(watch.observe(seconds(2), seconds(20)));
  EXPECT_FALSE(watch.idle_since());
}

TEST(IdleWatch, ALongWindowNeedsMoreCpuTime) {
  IdleWatch watch;
  watch.observe(seconds(0), seconds(0));
  watch.observe(seconds(1), seconds(100));
  EXPECT_TRUE(watch.idle_since()) << "the agent was suspended";
}

}  // namespace
}  // namespace lockstep::agent

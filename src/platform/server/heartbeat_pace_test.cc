#include "platform/server/heartbeat_pace.h"

#include <chrono>

#include <gtest/gtest.h>

namespace lockstep::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

model::NodeName node_numbered(int index) { return {"", {{{"demo", 1}, 1}, index}}; }

// So many agents call at this time, each with items of this size.
void call_all(HeartbeatPace& pace, int agents, Duration now, std::size_t bytes = 0) {
  for (int i = 0; i < agents; ++i) pace.record_call(node_numbered(i), bytes, now);
}

TEST(Pace, FewAgentsCallFiveTimesASecond) {
  HeartbeatPace pace;
  call_all(pace, 1, seconds(100));
  EXPECT_EQ(pace.interval(true), milliseconds(200));
  call_all(pace, 100, seconds(100));
  EXPECT_EQ(pace.interval(true), milliseconds(200));
}

TEST(Pace, ManyAgentsTogetherMakeFiveHundredCallsASecond) {
  HeartbeatPace pace;
  call_all(pace, 1000, seconds(100));
  EXPECT_EQ(pace.interval(true), seconds(2));
  call_all(pace, 100'000, seconds(101));
  EXPECT_EQ(pace.interval(true), seconds(10)) << "below the silence limit";
}

TEST(Pace, AgentsWithoutNewsLeaveTheDaemonAlone) {
  HeartbeatPace pace;
  call_all(pace, 100, seconds(100));
  EXPECT_EQ(pace.interval(false), milliseconds(200)) << "a first line of few agents shows at once";
  call_all(pace, 900, seconds(100));
  EXPECT_EQ(pace.interval(false), seconds(6)) << "150 calls a second";
  call_all(pace, 100'000, seconds(101));
  EXPECT_EQ(pace.interval(false), seconds(10)) << "below the silence limit";
}

TEST(Pace, AgentsThatNoLongerCallDoNotCount) {
  HeartbeatPace pace;
  call_all(pace, 1000, seconds(100));
  call_all(pace, 1, seconds(121));
  EXPECT_EQ(pace.interval(true), seconds(2)) << "the others may still call";
  call_all(pace, 1, seconds(142));
  EXPECT_EQ(pace.interval(true), milliseconds(200));
}

TEST(Pace, AgentsWithManyItemsShareARate) {
  constexpr std::size_t kBatch = 64 << 10;
  HeartbeatPace pace;
  call_all(pace, 1, seconds(100), kBatch);
  EXPECT_LT(pace.batch_pause(seconds(100)), milliseconds(10));
  call_all(pace, 1000, seconds(100), kBatch);
  EXPECT_GT(pace.batch_pause(seconds(100)), seconds(7));
  EXPECT_LE(pace.batch_pause(seconds(100)), seconds(10));
  EXPECT_EQ(pace.batch_pause(seconds(110)), Duration(0));
}

}  // namespace
}  // namespace lockstep::server

#include "platform/agent/activity_watch.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using std::chrono::seconds;

std::vector<Seen> one(char state, std::string ran = "") {
  return {{.process = {.pid = 7, .state = state}, .ran = std::move(ran)}};
}

TEST(ActivityWatch, AStoppedProcessIsToldAtOnceAndSinceWhen) {
  ActivityWatch watch;
  EXPECT_EQ(watch.look(0, one('S'), seconds(1)), (Doing{Activity::sleeping, {}}));
  EXPECT_EQ(watch.look(0, one('T'), seconds(3)), (Doing{Activity::stopped, seconds(3)}));
  EXPECT_EQ(watch.look(0, one('T'), seconds(9)), (Doing{Activity::stopped, seconds(3)}));
  EXPECT_EQ(watch.look(0, one('R'), seconds(11)), (Doing{Activity::running, {}}));
  EXPECT_EQ(watch.look(0, one('T'), seconds(13)), (Doing{Activity::stopped, seconds(13)}));
}

TEST(ActivityWatch, AProcessThatReadsADiskIsNotBlockedAndOneThatDoesNotRunIs) {
  ActivityWatch watch;
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(watch.look(0, one('D', std::to_string(i)), seconds(2 * i)).activity,
              Activity::running);
  EXPECT_EQ(watch.look(0, one('D', "same"), seconds(20)).activity, Activity::running);
  EXPECT_EQ(watch.look(0, one('D', "same"), seconds(24)).activity, Activity::running);
  EXPECT_EQ(watch.look(0, one('D', "same"), seconds(25)), (Doing{Activity::blocked, seconds(20)}));
}

TEST(ActivityWatch, OfSeveralProcessesTheOneThatExplainsAHangCounts) {
  ActivityWatch watch;
  std::vector<Seen> processes = one('S');
  processes.push_back({.process = {.pid = 8, .state = 'R'}});
  EXPECT_EQ(watch.look(1, processes, seconds(1)).activity, Activity::running);
  processes.push_back({.process = {.pid = 9, .state = 't'}});
  EXPECT_EQ(watch.look(1, processes, seconds(2)), (Doing{Activity::stopped, seconds(2)}));
  EXPECT_EQ(watch.look(1, {}, seconds(3)).activity, Activity::unknown);
}

}  // namespace
}  // namespace lockstep

#include "platform/agent/watch/activity_watch.h"

#include <gtest/gtest.h>

namespace lockstep::agent {
namespace {

using std::chrono::seconds;

std::vector<ProcessSample> one(char state, std::string ran = "") {
  return {{.process = {.pid = 7, .state = state}, .schedstat = std::move(ran)}};
}

TEST(ActivityWatch, AStoppedProcessIsToldAtOnceAndSinceWhen) {
  ActivityWatch watch;
  EXPECT_EQ(watch.observe(0, one('S'), seconds(1)), (RankActivity{model::Activity::sleeping, {}}));
  EXPECT_EQ(watch.observe(0, one('T'), seconds(3)),
            (RankActivity{model::Activity::stopped, seconds(3)}));
  EXPECT_EQ(watch.observe(0, one('T'), seconds(9)),
            (RankActivity{model::Activity::stopped, seconds(3)}));
  EXPECT_EQ(watch.observe(0, one('R'), seconds(11)), (RankActivity{model::Activity::running, {}}));
  EXPECT_EQ(watch.observe(0, one('T'), seconds(13)),
            (RankActivity{model::Activity::stopped, seconds(13)}));
}

TEST(ActivityWatch, AProcessThatReadsADiskIsNotBlockedAndOneThatDoesNotRunIs) {
  ActivityWatch watch;
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(watch.observe(0, one('D', std::to_string(i)), seconds(2 * i)).activity,
              model::Activity::running);
  EXPECT_EQ(watch.observe(0, one('D', "same"), seconds(20)).activity, model::Activity::running);
  EXPECT_EQ(watch.observe(0, one('D', "same"), seconds(24)).activity, model::Activity::running);
  EXPECT_EQ(watch.observe(0, one('D', "same"), seconds(25)),
            (RankActivity{model::Activity::blocked, seconds(20)}));
}

TEST(ActivityWatch, OfSeveralProcessesTheOneThatExplainsAHangCounts) {
  ActivityWatch watch;
  std::vector<ProcessSample> processes = one('S');
  processes.push_back({.process = {.pid = 8, .state = 'R'}});
  EXPECT_EQ(watch.observe(1, processes, seconds(1)).activity, model::Activity::running);
  processes.push_back({.process = {.pid = 9, .state = 't'}});
  EXPECT_EQ(watch.observe(1, processes, seconds(2)),
            (RankActivity{model::Activity::stopped, seconds(2)}));
  EXPECT_EQ(watch.observe(1, {}, seconds(3)).activity, model::Activity::unknown);
}

}  // namespace
}  // namespace lockstep::agent

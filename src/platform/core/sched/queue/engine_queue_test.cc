#include "platform/core/sched/queue/engine_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/core/sched/cluster_for_test.h"

namespace lockstep::sched {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_cluster::at_second;
using testing_cluster::cluster;
using testing_cluster::placement_texts;
using testing_cluster::run;
using testing_cluster::runs_of;
using testing_cluster::single_host_run;

std::vector<std::string> reasons_of(const EngineQueue& queue) {
  std::vector<std::string> reasons;
  for (const WaitingRun& waiting : queue.waiting()) reasons.emplace_back(waiting.reason.line());
  return reasons;
}

TEST(EngineQueue, StartsMoreRunsThanTheHostsHold) {
  EngineQueue queue(cluster({{2}}), policies::kOurs, 10);
  for (int number = 1; number <= 3; ++number)
    queue.add_pending(single_host_run(number, 2, number, 60));
  const Plan plan = queue.schedule(at_second(10));
  EXPECT_THAT(runs_of(plan.placements), ElementsAre(run(1), run(2), run(3)));
  EXPECT_THAT(placement_texts(plan.placements[0].devices), ElementsAre(":0,1"));
  EXPECT_THAT(queue.waiting(), IsEmpty());
}

TEST(EngineQueue, PlacesTheRemainderOnANodeOfItsOwn) {
  EngineQueue queue(cluster({{4, 4, 4}}), policies::kOurs, 10);
  PendingRun pending = single_host_run(1, 4, 0, 60);
  pending.nodes = 2;
  pending.remainder = 1;
  queue.add_pending(pending);
  EXPECT_THAT(placement_texts(queue.schedule(at_second(1)).placements.at(0).devices),
              ElementsAre(":0,1,2,3", ":0,1,2,3", ":0"));
}

TEST(EngineQueue, StartsAtMostSoManyRunsInQueueOrder) {
  EngineQueue queue(cluster({{2}}), policies::kOurs, 2);
  for (int number = 1; number <= 3; ++number)
    queue.add_pending(single_host_run(number, 1, number, 60));
  EXPECT_THAT(runs_of(queue.schedule(at_second(10)).placements), ElementsAre(run(1), run(2)));
  EXPECT_THAT(reasons_of(queue), ElementsAre(HasSubstr("the most that slurm_jobs_max allows")));
  EXPECT_EQ(queue.waiting()[0].blocker, run(1));
  queue.remove_allocation(run(2));
  EXPECT_THAT(runs_of(queue.schedule(at_second(11)).placements), ElementsAre(run(3)));
}

TEST(EngineQueue, DebugRunsBeyondTheirShareStandBehindEarlierRuns) {
  EngineQueue queue(cluster({{10}}), policies::kOursWithMoves, 2);  // a tenth is theirs
  queue.add_pending(single_host_run(1, 1, 1, 60));
  for (int number = 2; number <= 3; ++number) {
    PendingRun debug = single_host_run(number, 1, number, 60);
    debug.run_class = model::RunClass::debug;
    queue.add_pending(debug);
  }
  EXPECT_THAT(runs_of(queue.schedule(at_second(10)).placements), ElementsAre(run(2), run(1)));
  queue.remove_allocation(run(1));
  queue.add_pending(single_host_run(4, 1, 2, 60));
  EXPECT_EQ(queue.head(), run(4));
  EXPECT_EQ(queue.waiting()[0].run, run(4));
  queue.remove_allocation(run(2));
  EXPECT_EQ(queue.head(), run(3)) << "the share has room again";
}

TEST(EngineQueue, ARunBeyondALimitBlocksNoOther) {
  EngineQueue queue(cluster({{2, 2}}), policies::kOurs, 10);
  queue.set_limits({.project_devices = {{"demo", 2}}, .user_devices = {}});
  queue.add_allocation({.run = run(1), .devices = {{"", {0, 1}}}, .expected_end = at_second(100)});
  queue.add_pending(single_host_run(2, 1, 2, 60));
  PendingRun other = single_host_run(3, 2, 3, 60);
  other.run.project = "other";
  queue.add_pending(other);
  EXPECT_THAT(runs_of(queue.schedule(at_second(10)).placements), ElementsAre(other.run));
  EXPECT_THAT(reasons_of(queue), ElementsAre(HasSubstr("project demo holds 2 of the 2")));
  EXPECT_EQ(queue.head(), std::nullopt);
  queue.remove_allocation(run(1));
  EXPECT_EQ(queue.head(), run(2));
}

TEST(EngineQueue, ARunThatFitsOnClosedHostsOnlyWaits) {
  EngineQueue queue(cluster({{2, 2}}), policies::kOurs, 10);
  queue.set_host("h1", model::HostState::closed, "by root");
  PendingRun pending = single_host_run(1, 2, 0, 60);
  pending.nodes = 2;
  queue.add_pending(pending);
  EXPECT_THAT(queue.schedule(at_second(1)).placements, IsEmpty());
  EXPECT_THAT(reasons_of(queue), ElementsAre(HasSubstr("h1 is cordoned (by root)")));
  queue.set_host("h1", model::HostState::open, "");
  EXPECT_THAT(runs_of(queue.schedule(at_second(2)).placements), ElementsAre(run(1)));
}

TEST(EngineQueue, ARunThatTheMapCannotHoldSaysSo) {
  EngineQueue queue(cluster({{2, 2}}), policies::kOurs, 10);
  queue.add_pending(single_host_run(1, 3, 0, 60));
  EXPECT_THAT(queue.schedule(at_second(1)).placements, IsEmpty());
  EXPECT_THAT(reasons_of(queue), ElementsAre(HasSubstr("at most 2 on one")));
}

}  // namespace
}  // namespace lockstep::sched

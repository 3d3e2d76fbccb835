// Runs whose hosts an engine chooses: of a cluster that has no others, and of one that has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/core/sched/cluster_for_test.h"
#include "platform/core/sched/scheduler.h"

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

std::vector<std::string> reasons_of(const Scheduler& scheduler) {
  std::vector<std::string> reasons;
  for (const WaitingRun& waiting : scheduler.waiting()) reasons.emplace_back(waiting.reason.line());
  return reasons;
}

// The engine has all hosts.
Scheduler scheduler_of_engine(const map::ClusterMap& map, const SchedulingPolicy& policy,
                              int runs_max) {
  return {{}, policy, MapGrowth::none, EngineHosts{map, runs_max}};
}

// The hosts of the engine: e0, e1 and so on.
EngineHosts engine_hosts(const std::vector<int>& devices, int runs_max) {
  EngineHosts hosts{cluster({devices}), runs_max};
  for (map::Host& host : hosts.map.pods[0].leaves[0].hosts) host.id[0] = 'e';
  return hosts;
}

PendingRun gang(int number, int nodes, int devices, std::int64_t arrived, std::int64_t limit) {
  PendingRun pending = single_host_run(number, devices, arrived, limit);
  pending.nodes = nodes;
  return pending;
}

bool is_at_engine(const Placement& placement) { return placement.devices.front().host.empty(); }

TEST(EngineHosts, StartsMoreRunsThanTheHostsHold) {
  Scheduler queue = scheduler_of_engine(cluster({{2}}), policies::kOurs, 10);
  for (int number = 1; number <= 3; ++number)
    queue.add_pending(single_host_run(number, 2, number, 60));
  const Plan plan = queue.schedule(at_second(10));
  EXPECT_THAT(runs_of(plan.placements), ElementsAre(run(1), run(2), run(3)));
  EXPECT_THAT(placement_texts(plan.placements[0].devices), ElementsAre(":0,1"));
  EXPECT_THAT(queue.waiting(), IsEmpty());
}

TEST(EngineHosts, PlacesTheRemainderOnANodeOfItsOwn) {
  Scheduler queue = scheduler_of_engine(cluster({{4, 4, 4}}), policies::kOurs, 10);
  PendingRun pending = single_host_run(1, 4, 0, 60);
  pending.nodes = 2;
  pending.remainder = 1;
  queue.add_pending(pending);
  EXPECT_THAT(placement_texts(queue.schedule(at_second(1)).placements.at(0).devices),
              ElementsAre(":0,1,2,3", ":0,1,2,3", ":0"));
}

TEST(EngineHosts, StartsAtMostSoManyRunsInQueueOrder) {
  Scheduler queue = scheduler_of_engine(cluster({{2}}), policies::kOurs, 2);
  for (int number = 1; number <= 3; ++number)
    queue.add_pending(single_host_run(number, 1, number, 60));
  EXPECT_THAT(runs_of(queue.schedule(at_second(10)).placements), ElementsAre(run(1), run(2)));
  EXPECT_THAT(reasons_of(queue), ElementsAre(HasSubstr("as many jobs as slurm_jobs_max allows")));
  EXPECT_EQ(queue.waiting()[0].blocker, run(1));
  queue.remove_allocation(run(2));
  EXPECT_THAT(runs_of(queue.schedule(at_second(11)).placements), ElementsAre(run(3)));
}

TEST(EngineHosts, DebugRunsBeyondTheirShareStandBehindEarlierRuns) {
  Scheduler queue =
      scheduler_of_engine(cluster({{10}}), policies::kOursWithMoves, 2);  // a tenth is theirs
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

TEST(EngineHosts, ARunBeyondALimitBlocksNoOther) {
  Scheduler queue = scheduler_of_engine(cluster({{2, 2}}), policies::kOurs, 10);
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

TEST(EngineHosts, ARunThatFitsOnClosedHostsOnlyWaits) {
  Scheduler queue = scheduler_of_engine(cluster({{2, 2}}), policies::kOurs, 10);
  queue.set_host("h1", model::HostState::closed, "by root");
  PendingRun pending = single_host_run(1, 2, 0, 60);
  pending.nodes = 2;
  queue.add_pending(pending);
  EXPECT_THAT(queue.schedule(at_second(1)).placements, IsEmpty());
  EXPECT_THAT(reasons_of(queue), ElementsAre(HasSubstr("h1 is cordoned (by root)")));
  queue.set_host("h1", model::HostState::open, "");
  EXPECT_THAT(runs_of(queue.schedule(at_second(2)).placements), ElementsAre(run(1)));
}

TEST(EngineHosts, ARunThatTheMapCannotHoldSaysSo) {
  Scheduler queue = scheduler_of_engine(cluster({{2, 2}}), policies::kOurs, 10);
  queue.add_pending(single_host_run(1, 3, 0, 60));
  EXPECT_THAT(queue.schedule(at_second(1)).placements, IsEmpty());
  EXPECT_THAT(reasons_of(queue), ElementsAre(HasSubstr("at most 2 on one")));
}

// A job asks for one kind of devices, and each kind has a partition of its own.
TEST(EngineHosts, AGangStaysOnHostsOfOneKindOfDevices) {
  map::ClusterMap map = cluster({{2, 2}, {2, 2, 2}});
  for (map::Host& host : map.pods[1].leaves[0].hosts)
    for (map::Device& device : host.islands[0].devices) device.kind = map::DeviceKind::core;
  Scheduler queue = scheduler_of_engine(map, policies::kOurs, 10);
  queue.add_pending(gang(1, 4, 2, 1, 60));
  queue.add_pending(gang(2, 3, 2, 2, 60));
  PendingRun on_gpus = gang(3, 3, 2, 3, 60);
  on_gpus.needs.kind = map::DeviceKind::gpu;
  queue.add_pending(on_gpus);
  EXPECT_THAT(runs_of(queue.schedule(at_second(10)).placements), ElementsAre(run(2)));
  EXPECT_THAT(reasons_of(queue), ElementsAre(testing::AllOf(HasSubstr("devices of one kind"),
                                                            HasSubstr("--nodes 3 --devices 2")),
                                             HasSubstr("no such hosts, or too few")));
  queue.set_host("h2", model::HostState::closed, "by root");
  queue.add_pending(gang(4, 3, 2, 4, 60));
  EXPECT_THAT(queue.schedule(at_second(20)).placements, IsEmpty());
}

TEST(EngineHosts, TheReasonStaysTheSameWhenJobsEndBeyondTheirNumber) {
  Scheduler queue = scheduler_of_engine(cluster({{2}}), policies::kOurs, 1);
  for (int number = 1; number <= 3; ++number)
    queue.add_allocation(
        {.run = run(number), .devices = {{"", {0}}}, .expected_end = at_second(100)});
  queue.add_pending(single_host_run(4, 1, 1, 60));
  EXPECT_THAT(queue.schedule(at_second(10)).placements, IsEmpty());
  const auto before = reasons_of(queue);
  queue.remove_allocation(run(1));
  EXPECT_THAT(queue.schedule(at_second(20)).placements, IsEmpty());
  EXPECT_EQ(reasons_of(queue), before);
}

// Hosts of both kinds: h0 and h1 of two devices each, and those of the engine.
class BothKindsOfHosts : public testing::Test {
 protected:
  // As in the daemon, a preempted run leaves later.
  Scheduler scheduler(int runs_max, SchedulingPolicy policy = policies::kOursWithMoves) {
    policy.preempts_at_once = false;
    return {cluster({{2, 2}}), policy, MapGrowth::none, engine_hosts({4, 4, 4}, runs_max)};
  }
};

TEST_F(BothKindsOfHosts, ARunStartsAtTheEngineIfItCannotStartOnTheOtherHostsNow) {
  Scheduler both = scheduler(10);
  for (int number = 1; number <= 3; ++number)
    both.add_pending(single_host_run(number, 2, number, 60));
  const Plan plan = both.schedule(at_second(10));
  EXPECT_THAT(runs_of(plan.placements), ElementsAre(run(1), run(2), run(3)));
  EXPECT_THAT(placement_texts(plan.placements[0].devices), ElementsAre("h0:0,1"));
  EXPECT_THAT(placement_texts(plan.placements[1].devices), ElementsAre("h1:0,1"));
  EXPECT_THAT(placement_texts(plan.placements[2].devices), ElementsAre(":0,1"));
}

TEST_F(BothKindsOfHosts, ARunThatOnlyTheEngineCanHoldStartsThereAtOnce) {
  Scheduler both = scheduler(10);
  both.add_pending(gang(1, 3, 1, 1, 60));
  both.add_pending(single_host_run(2, 2, 2, 60));
  const Plan plan = both.schedule(at_second(10));
  EXPECT_TRUE(is_at_engine(plan.placements.at(0)));
  EXPECT_THAT(placement_texts(plan.placements.at(1).devices), ElementsAre("h0:0,1"));
}

TEST_F(BothKindsOfHosts, ARunWithALabelOfTheEngineDoesNotStartOnFreeHosts) {
  EngineHosts engine = engine_hosts({2}, 1);
  engine.map.pods[0].leaves[0].hosts[0].labels = {{"engine", "slurm"}};
  Scheduler both(cluster({{2}}), policies::kOurs, MapGrowth::none, engine);
  for (int number = 1; number <= 2; ++number) {
    PendingRun pending = single_host_run(number, 1, number, 60);
    pending.needs.labels = map::Labels{{"engine", "slurm"}};
    both.add_pending(pending);
  }
  const Plan plan = both.schedule(at_second(10));
  ASSERT_THAT(runs_of(plan.placements), ElementsAre(run(1)));
  EXPECT_TRUE(is_at_engine(plan.placements[0]));
  EXPECT_THAT(reasons_of(both), ElementsAre(HasSubstr("as many jobs as slurm_jobs_max allows, 1")));
  EXPECT_EQ(both.waiting()[0].blocker, run(1));
  EXPECT_EQ(both.start_estimates()[0], std::nullopt) << "the engine decides";
}

TEST_F(BothKindsOfHosts, WhileTheEngineIsFullARunWaitsForTheOtherHostsToo) {
  Scheduler both = scheduler(1);
  both.add_pending(single_host_run(1, 4, 1, 60));
  both.add_pending(gang(2, 2, 2, 2, 60));
  both.add_pending(gang(3, 2, 2, 3, 60));
  EXPECT_THAT(runs_of(both.schedule(at_second(10)).placements), ElementsAre(run(1), run(2)));
  EXPECT_EQ(both.head(), run(3));
  EXPECT_THAT(reasons_of(both),
              ElementsAre(testing::AllOf(HasSubstr("waits for demo/2: needs 2 hosts"),
                                         HasSubstr("as many jobs as slurm_jobs_max allows, 1"))));
  EXPECT_EQ(both.waiting()[0].expected_start, at_second(70));
  both.remove_allocation(run(1));
  const Plan plan = both.schedule(at_second(20));
  ASSERT_THAT(runs_of(plan.placements), ElementsAre(run(3)));
  EXPECT_TRUE(is_at_engine(plan.placements[0]));
}

TEST_F(BothKindsOfHosts, ARunThatFitsOnOneKindOnlyWaitsForItAndBlocksNoRunOfTheOther) {
  Scheduler both = scheduler(1);
  both.add_pending(single_host_run(1, 4, 1, 60));
  both.add_pending(single_host_run(2, 4, 2, 60));
  both.add_pending(single_host_run(3, 2, 3, 60));
  EXPECT_THAT(runs_of(both.schedule(at_second(10)).placements), ElementsAre(run(1), run(3)));
  EXPECT_THAT(reasons_of(both), ElementsAre(HasSubstr("as many jobs as slurm_jobs_max allows")));
}

TEST_F(BothKindsOfHosts, NoRunIsPreemptedForOneThatTheEngineTakes) {
  Scheduler both = scheduler(1);
  for (int number = 1; number <= 2; ++number) {
    PendingRun evictable = single_host_run(number, 2, number, 600);
    evictable.run_class = model::RunClass::preemptible;
    both.add_pending(evictable);
  }
  EXPECT_EQ(both.schedule(at_second(10)).placements.size(), 2u);
  both.add_pending(single_host_run(3, 2, 20, 60));
  const Plan taken = both.schedule(at_second(20));
  EXPECT_THAT(taken.evictions, IsEmpty());
  EXPECT_TRUE(is_at_engine(taken.placements.at(0)));
  both.add_pending(single_host_run(4, 2, 30, 60));
  EXPECT_EQ(both.schedule(at_second(30)).evictions.size(), 1u) << "the engine is full";
}

TEST_F(BothKindsOfHosts, APreemptibleRunOfTheEngineIsNotEvicted) {
  Scheduler both = scheduler(1);
  PendingRun evictable = single_host_run(1, 4, 1, 600);
  evictable.run_class = model::RunClass::preemptible;
  both.add_pending(evictable);
  both.add_pending(gang(2, 2, 2, 2, 600));
  EXPECT_EQ(both.schedule(at_second(10)).placements.size(), 2u);
  both.add_pending(single_host_run(3, 2, 20, 60));
  const Plan plan = both.schedule(at_second(20));
  EXPECT_THAT(plan.evictions, IsEmpty());
  EXPECT_THAT(plan.placements, IsEmpty());
}

TEST_F(BothKindsOfHosts, ARunThatWouldDelayTheHeadStartsAtTheEngine) {
  Scheduler both = scheduler(2);
  both.set_host("e0", model::HostState::closed);
  both.set_host("e1", model::HostState::closed);
  both.add_pending(single_host_run(1, 2, 1, 60));
  both.add_pending(gang(2, 2, 2, 2, 600));
  EXPECT_THAT(runs_of(both.schedule(at_second(10)).placements), ElementsAre(run(1)));
  both.add_pending(single_host_run(3, 2, 20, 600));
  const Plan plan = both.schedule(at_second(20));
  ASSERT_THAT(runs_of(plan.placements), ElementsAre(run(3)));
  EXPECT_TRUE(is_at_engine(plan.placements[0]));
}

TEST_F(BothKindsOfHosts, ALimitCountsTheDevicesOfBoth) {
  Scheduler both = scheduler(10);
  both.set_limits({.project_devices = {{"demo", 4}}, .user_devices = {}});
  both.add_pending(single_host_run(1, 2, 1, 60));
  both.add_pending(single_host_run(2, 3, 2, 60));
  both.add_pending(single_host_run(3, 2, 3, 60));
  EXPECT_THAT(runs_of(both.schedule(at_second(10)).placements), ElementsAre(run(1), run(3)));
  EXPECT_THAT(reasons_of(both), ElementsAre(HasSubstr("project demo holds 4 of the 4")));
  both.remove_allocation(run(1));
  both.remove_allocation(run(3));
  const Plan plan = both.schedule(at_second(20));
  ASSERT_THAT(runs_of(plan.placements), ElementsAre(run(2)));
  EXPECT_TRUE(is_at_engine(plan.placements[0]));
  both.add_pending(single_host_run(4, 2, 20, 60));
  EXPECT_THAT(both.schedule(at_second(20)).placements, IsEmpty());
  EXPECT_EQ(both.waiting()[0].blocker, run(2));
  EXPECT_EQ(both.waiting()[0].expected_start, std::nullopt) << "the engine decides when it ends";
}

TEST_F(BothKindsOfHosts, WhileTheEngineIsAwayItsRunsWaitAndTheOthersStart) {
  Scheduler both = scheduler(10);
  for (const char* host : {"e0", "e1", "e2"})
    both.set_host(host, model::HostState::closed, "the engine slurm does not answer");
  both.add_pending(single_host_run(1, 4, 1, 60));
  for (int number = 2; number <= 4; ++number)
    both.add_pending(single_host_run(number, 2, number, 60));
  const Plan plan = both.schedule(at_second(10));
  EXPECT_THAT(runs_of(plan.placements), ElementsAre(run(2), run(3)));
  EXPECT_THAT(reasons_of(both),
              ElementsAre(HasSubstr("the engine slurm does not answer"),
                          testing::AllOf(HasSubstr("waits for demo/2"),
                                         HasSubstr("the engine slurm does not answer"))));
  EXPECT_EQ(both.head(), run(4));
  for (const char* host : {"e0", "e1", "e2"}) both.set_host(host, model::HostState::open);
  EXPECT_THAT(runs_of(both.schedule(at_second(11)).placements), ElementsAre(run(1), run(4)));
}

TEST_F(BothKindsOfHosts, AJobOnAHostOfTheEngineCountsAsOneOfItsRuns) {
  Scheduler both = scheduler(1);
  both.add_allocation({.run = run(1), .devices = {{"e1", {0}}}, .expected_end = at_second(100)});
  both.add_pending(single_host_run(2, 4, 2, 60));
  EXPECT_THAT(both.schedule(at_second(10)).placements, IsEmpty());
}

// The engine alone knows when a job starts, so the job may hold devices when the head starts.
TEST_F(BothKindsOfHosts, AShortJobLeavesTheLimitThatAHeadNeedsHere) {
  Scheduler both = scheduler(10, policies::kEasy);
  both.set_host("e2", model::HostState::closed);
  both.set_host("e1", model::HostState::closed);
  both.set_limits({.project_devices = {{"demo", 5}}, .user_devices = {}});
  PendingRun other = single_host_run(1, 2, 1, 600);
  other.run.project = "other";
  both.add_pending(other);
  EXPECT_EQ(both.schedule(at_second(10)).placements.size(), 1u);
  both.add_pending(gang(2, 2, 2, 20, 600));         // waits for other/1
  both.add_pending(single_host_run(3, 3, 30, 60));  // fits at the engine alone
  PendingRun free = single_host_run(4, 3, 40, 60);
  free.run.project = "third";
  both.add_pending(free);
  const Plan plan = both.schedule(at_second(50));
  EXPECT_THAT(runs_of(plan.placements), ElementsAre(free.run)) << "of the same shape";
  both.add_pending(single_host_run(5, 2, 60, 60));
  const Plan small = both.schedule(at_second(60));
  ASSERT_THAT(runs_of(small.placements), ElementsAre(run(5)));
  EXPECT_FALSE(is_at_engine(small.placements[0])) << "it ends here in time";
}

TEST_F(BothKindsOfHosts, AJobThatEndsKeepsNoPreemptibleRunFromPassingTheHead) {
  Scheduler both = scheduler(0);
  both.add_allocation(
      {.run = run(1), .devices = {{"", {0}}}, .expected_end = at_second(5), .leaving = true});
  both.add_allocation({.run = run(2), .devices = {{"h0", {0, 1}}}, .expected_end = at_second(70)});
  both.add_pending(gang(3, 2, 2, 3, 60));
  PendingRun evictable = single_host_run(4, 2, 4, 600);
  evictable.run_class = model::RunClass::preemptible;
  both.add_pending(evictable);
  EXPECT_THAT(runs_of(both.schedule(at_second(10)).placements), ElementsAre(run(4)));
}

TEST_F(BothKindsOfHosts, ARunThatNeitherKindCanHoldNamesBoth) {
  Scheduler both = scheduler(10);
  both.add_pending(gang(1, 4, 4, 1, 60));
  EXPECT_THAT(both.schedule(at_second(10)).placements, IsEmpty());
  EXPECT_THAT(
      reasons_of(both),
      ElementsAre("needs 4 hosts with 4 devices each; Lockstep places runs on 2 hosts with 4 "
                  "devices in all, at most 2 on one; the engine chooses among 3 hosts with 12 "
                  "devices in all, at most 4 on one; --nodes 3 --devices 4 would fit; `lockstep "
                  "map` shows it"));
}

TEST_F(BothKindsOfHosts, ARunBehindTheHeadNamesWhatKeepsItFromTheEngine) {
  Scheduler both = scheduler(1);
  both.add_pending(single_host_run(1, 4, 1, 60));
  both.add_pending(gang(2, 2, 2, 2, 60));
  for (int number = 3; number <= 4; ++number) both.add_pending(gang(number, 2, 2, number, 60));
  EXPECT_THAT(runs_of(both.schedule(at_second(10)).placements), ElementsAre(run(1), run(2)));
  EXPECT_EQ(reasons_of(both).at(1),
            "waits behind demo/3 in the queue; the engine has as many jobs as slurm_jobs_max "
            "allows, 1");
  EXPECT_TRUE(both.waiting()[1].behind_head);
}

}  // namespace
}  // namespace lockstep::sched

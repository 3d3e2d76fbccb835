#include "platform/core/sched/pass.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "platform/core/sched/cluster_for_test.h"

namespace lockstep::sched {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using testing_cluster::cluster;
using testing_cluster::placement_texts;
using testing_cluster::run;

// First come, first served, by the order of the array: runs arrive one second after the other.
Plan in_turn(const map::ClusterMap& map, std::vector<PendingRun> queue,
             const std::vector<Allocation>& held) {
  std::int64_t second = 0;
  for (PendingRun& want : queue) want.arrived = testing_cluster::at_second(++second);
  return schedule_once(map, policies::kFifo, queue, held, testing_cluster::at_second(100));
}

using Places = std::vector<std::string>;

TEST(QueueScan, PlacesAGangOnDistinctHosts) {
  const auto plan = in_turn(cluster({{2, 2}}), {{run(1), 2, 2}}, {});
  ASSERT_EQ(plan.placements.size(), 1u);
  EXPECT_EQ(placement_texts(plan.placements[0].devices), (Places{"h0:0,1", "h1:0,1"}));
  EXPECT_TRUE(plan.waiting.empty());
}

TEST(QueueScan, AHostWithATaintTakesOnlyRunsThatTolerateIt) {
  map::ClusterMap map = cluster({{2, 2}});
  map.pods[0].leaves[0].hosts[0].labels = {{"taint/spot", "NoSchedule/true"}};
  PendingRun tolerant{.run = run(3), .devices = 2};
  tolerant.needs.tolerations = {"spot=true"};
  const auto plan = in_turn(map, {{run(1), 1, 2}, tolerant, {run(2), 1, 2}}, {});
  ASSERT_EQ(plan.placements.size(), 2u);
  EXPECT_EQ(placement_texts(plan.placements[0].devices), (Places{"h1:0,1"}));
  EXPECT_EQ(placement_texts(plan.placements[1].devices), (Places{"h0:0,1"}));
  ASSERT_EQ(plan.waiting.size(), 1u);
  EXPECT_EQ(plan.waiting[0].run, run(2));
  EXPECT_THAT(check_fits(map, {run(1), 2, 2}).error().message,
              HasSubstr("1 host with taints, which the run does not tolerate"));
}

TEST(QueueScan, TakesTheHostsWithTheFewestFreeDevices) {
  const std::vector<Allocation> held = {{run(1), {{"h1", {0, 2}}}}};
  const auto plan = in_turn(cluster({{4, 4}}), {{run(2), 1, 2}}, held);
  ASSERT_EQ(plan.placements.size(), 1u);
  EXPECT_EQ(placement_texts(plan.placements[0].devices), (Places{"h1:1,3"}));
}

TEST(QueueScan, KeepsAGangInsideOnePod) {
  const auto map = cluster({{2}, {2, 2}, {2}});
  const auto plan = in_turn(map, {{run(1), 2, 1}}, {});
  ASSERT_EQ(plan.placements.size(), 1u);
  EXPECT_EQ(placement_texts(plan.placements[0].devices), (Places{"h1:0", "h2:0"}));
}

TEST(QueueScan, SpreadsAGangOverPodsOnlyIfAllHaveTheSameEngine) {
  auto map = cluster({{2, 2}, {2}});
  EXPECT_EQ(in_turn(map, {{run(1), 3, 2}}, {}).placements.size(), 1u);
  map.pods[0].engine = "local";
  map.pods[1].engine = "slurm";
  const auto plan = in_turn(map, {{run(1), 3, 2}, {run(2), 2, 2}}, {});
  ASSERT_EQ(plan.placements.size(), 1u);
  EXPECT_EQ(placement_texts(plan.placements[0].devices), (Places{"h0:0,1", "h1:0,1"}));
  ASSERT_EQ(plan.waiting.size(), 1u);
  EXPECT_THAT(plan.waiting[0].reason.line(),
              AllOf(HasSubstr("needs 3 hosts"), HasSubstr("a run stays in one pod"),
                    HasSubstr("--nodes 2 --devices 2 would fit")));
}

TEST(QueueScan, LetsAGangWaitForAPodThoughOthersHaveRoom) {
  const auto map = cluster({{2}, {2, 2}, {2}});
  const std::vector<Allocation> held = {{run(1), {{"h1", {0, 1}}}}};
  const auto plan = in_turn(map, {{run(2), 2, 2}}, held);
  ASSERT_EQ(plan.waiting.size(), 1u);
  EXPECT_THAT(plan.waiting[0].reason.line(),
              AllOf(HasSubstr("waits for demo/1"), HasSubstr("2 hosts with 2 free devices"),
                    HasSubstr("one pod"), HasSubstr("1 has")));
}

TEST(QueueScan, SpreadsAGangLargerThanAnyPodOverFewPods) {
  const auto map = cluster({{1}, {1, 1}, {1, 1}});
  const auto plan = in_turn(map, {{run(1), 4, 1}}, {});
  ASSERT_EQ(plan.placements.size(), 1u);
  EXPECT_EQ(placement_texts(plan.placements[0].devices), (Places{"h1:0", "h2:0", "h3:0", "h4:0"}));
}

TEST(QueueScan, SaysForWhomTheHeadWaitsAndWhatItNeeds) {
  const std::vector<Allocation> held = {{run(2), {{"h0", {0}}}, testing_cluster::at_second(7)},
                                        {run(3), {{"h1", {0}}}, testing_cluster::at_second(8)}};
  const auto plan = in_turn(cluster({{2, 2, 2}}), {{run(4), 3, 2}}, held);
  ASSERT_EQ(plan.waiting.size(), 1u);
  EXPECT_EQ(plan.waiting[0].blocker, run(3));
  EXPECT_THAT(plan.waiting[0].reason.line(),
              AllOf(HasSubstr("waits for demo/3"), HasSubstr("3 hosts with 2 free devices"),
                    HasSubstr("1 has")));
}

TEST(QueueScan, LetsNobodyPassTheHead) {
  const std::vector<Allocation> held = {{run(1), {{"h0", {0}}}}};
  const std::vector<PendingRun> queue = {{run(2), 2, 2}, {run(3), 1, 1}};
  const auto plan = in_turn(cluster({{2, 2}}), queue, held);
  EXPECT_TRUE(plan.placements.empty());
  ASSERT_EQ(plan.waiting.size(), 2u);
  EXPECT_EQ(plan.waiting[1].blocker, run(2));
  EXPECT_THAT(plan.waiting[1].reason.line(), HasSubstr("behind demo/2"));
}

TEST(QueueScan, TellsAllBehindTheHeadByOneLineThatTheyShare) {
  const std::vector<Allocation> held = {{run(1), {{"h0", {0}}}}};
  const std::vector<PendingRun> queue = {{run(2), 2, 2}, {run(3), 2, 2}, {run(4), 2, 2}};
  const auto plan = in_turn(cluster({{2, 2}}), queue, held);
  ASSERT_EQ(plan.waiting.size(), 3u);
  EXPECT_THAT(plan.waiting[2].reason.line(), HasSubstr("behind demo/2"));
  EXPECT_EQ(plan.waiting[1].reason.line().data(), plan.waiting[2].reason.line().data());
}

TEST(QueueScan, LetsARunThatTheMapCannotHoldAnyMoreBlockNobody) {
  const std::vector<PendingRun> queue = {{run(1), 3, 1}, {run(2), 1, 1}};
  const auto plan = in_turn(cluster({{1, 1}}), queue, {});
  ASSERT_EQ(plan.placements.size(), 1u);
  EXPECT_EQ(plan.placements[0].run, run(2));
  ASSERT_EQ(plan.waiting.size(), 1u);
  EXPECT_EQ(plan.waiting[0].blocker, std::nullopt);
}

TEST(Fits, NamesTheOptionThatMakesOneMachineTwoHosts) {
  const auto refused = check_fits(cluster({{4}}), {run(1), 2, 2});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::invalid);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("1 host"), HasSubstr("`lockstep serve --hosts 2x2`")));
}

TEST(Fits, SaysWhatTheMapHolds) {
  EXPECT_TRUE(check_fits(cluster({{2, 4}}), {run(1), 2, 2}));
  EXPECT_TRUE(check_fits(cluster({{2}, {2}}), {run(1), 2, 2}));
  const auto too_large = check_fits(cluster({{2, 4}}), {run(1), 2, 3});
  EXPECT_EQ(too_large.error().code, Code::invalid);
  EXPECT_THAT(too_large.error().message,
              AllOf(HasSubstr("2 hosts with 3 devices"), HasSubstr("2 hosts with 6 devices"),
                    HasSubstr("at most 4 on one"), HasSubstr("--nodes 1 --devices 4"),
                    HasSubstr("`lockstep map`")));
  EXPECT_THAT(check_fits(cluster({{2}}), {run(1), 1, 3}).error().message, HasSubstr("at most 2"));
}

TEST(Fits, NamesTheNearestThatWouldFit) {
  const auto nearest = [](const map::ClusterMap& map, int nodes, int devices) {
    return check_fits(map, {run(1), nodes, devices}).error().message;
  };
  const map::ClusterMap eights = testing_cluster::pods_of_eights(2, 2);
  EXPECT_THAT(nearest(eights, 5, 8), HasSubstr("; --nodes 4 --devices 8 would fit;"));
  EXPECT_THAT(nearest(eights, 1, 16), HasSubstr("; --nodes 2 --devices 8 would fit;"));
  EXPECT_THAT(nearest(eights, 6, 4), HasSubstr("; --nodes 3 --devices 8 would fit;"));
  EXPECT_THAT(nearest(eights, 9, 1), HasSubstr("; --nodes 3 --devices 3 would fit;"));
  EXPECT_THAT(nearest(cluster({{1, 1}}), 3, 1), HasSubstr("; --nodes 2 --devices 1 would fit;"));
}

// For any queue: no device twice, gangs complete, one pod if a pod suffices, every run placed or
// with a reason, and the same result twice.
TEST(QueueScan, KeepsItsPromisesOnRandomQueues) {
  Random random(7);
  const auto map = cluster({{2, 4, 4}, {8, 1}, {2, 2, 2, 2}});
  for (int round = 0; round < 300; ++round) {
    std::vector<PendingRun> queue;
    for (int i = 1; i <= 12; ++i)
      queue.push_back(
          {run(i), static_cast<int>(1 + random.below(5)), static_cast<int>(1 + random.below(4))});
    const auto plan = in_turn(map, queue, {});
    EXPECT_EQ(plan.placements.size() + plan.waiting.size(), queue.size());
    std::set<std::pair<std::string, int>> taken;
    for (const auto& placement : plan.placements) {
      const PendingRun& want = queue[static_cast<std::size_t>(placement.run.number - 1)];
      std::set<std::string> hosts;
      for (const auto& slice : placement.devices) {
        EXPECT_EQ(std::ssize(slice.devices), want.devices);
        hosts.insert(slice.host);
        for (int device : slice.devices) EXPECT_TRUE(taken.emplace(slice.host, device).second);
      }
      EXPECT_EQ(std::ssize(hosts), want.nodes);
    }
    for (const auto& waiting : plan.waiting) EXPECT_FALSE(waiting.reason.empty());
    const auto again = in_turn(map, queue, {});
    ASSERT_EQ(again.placements.size(), plan.placements.size());
    for (std::size_t i = 0; i < plan.placements.size(); ++i)
      EXPECT_EQ(again.placements[i].devices, plan.placements[i].devices);
  }
}

}  // namespace
}  // namespace lockstep::sched

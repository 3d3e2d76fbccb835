#include "platform/core/sched/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/core/sched/capacity/fragmentation.h"
#include "platform/core/sched/capacity/host_loss_limits.h"
#include "platform/core/sched/cluster_for_test.h"
#include "platform/core/sched/pass.h"
#include "platform/core/sched/queue/dependencies.h"
#include "platform/core/sched/queue/fair_share.h"

namespace lockstep::sched {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_cluster::at_second;
using testing_cluster::cluster;
using testing_cluster::placement_texts;
using testing_cluster::pods_of_eights;
using testing_cluster::run;
using testing_cluster::run_of_eights;
using testing_cluster::runs_of;
using testing_cluster::single_host_run;

SchedulingPolicy with(SchedulingPolicy policy, Fit fit) {
  policy.fit = fit;
  return policy;
}

// The runs that start at `now`, in order.
std::vector<model::RunId> starts(Scheduler& scheduler, std::int64_t now) {
  return runs_of(scheduler.schedule(at_second(now)).placements);
}

std::vector<std::string> place_of_one(Scheduler& scheduler) {
  const Plan plan = scheduler.schedule(at_second(0));
  return plan.placements.size() == 1 ? placement_texts(plan.placements[0].devices)
                                     : std::vector<std::string>{};
}

// One host of two devices; demo/1 holds one until second 100, demo/2 needs both.
Scheduler with_a_head(const SchedulingPolicy& policy) {
  Scheduler scheduler(cluster({{2}}), policy);
  scheduler.add_allocation({run(1), {{"h0", {0}}}, at_second(100)});
  scheduler.add_pending(single_host_run(2, 2, 1, 1000));
  return scheduler;
}

TEST(Scheduler, LetsNobodyPassTheHeadFirstComeFirstServed) {
  auto scheduler = with_a_head(policies::kFifo);
  scheduler.add_pending(single_host_run(3, 1, 2, 1));
  EXPECT_THAT(starts(scheduler, 10), IsEmpty());
  EXPECT_EQ(scheduler.head(), run(2));
}

TEST(Scheduler, BackfillsARunThatEndsWhenTheHeadCanStart) {
  auto scheduler = with_a_head(policies::kEasy);
  scheduler.add_pending(single_host_run(3, 1, 2, 91));
  scheduler.add_pending(single_host_run(4, 1, 3, 90));
  EXPECT_THAT(starts(scheduler, 10), ElementsAre(run(4)));
}

TEST(Scheduler, BackfillsALongRunOnDevicesThatTheHeadDoesNotNeed) {
  Scheduler scheduler(cluster({{2, 2}}), policies::kEasy);
  scheduler.add_allocation({run(1), {{"h0", {0}}}, at_second(100)});
  scheduler.add_allocation({run(2), {{"h1", {0}}}, at_second(200)});
  scheduler.add_pending(single_host_run(3, 2, 1, 1000));
  scheduler.add_pending(
      single_host_run(4, 1, 2, 5000));  // on h0 it would delay the head: best fit takes h0
  EXPECT_THAT(starts(scheduler, 10), IsEmpty());
  scheduler.add_allocation({run(5), {{"h0", {1}}}, at_second(100)});
  EXPECT_THAT(starts(scheduler, 11), ElementsAre(run(4)));  // it fits only on h1: the head needs h0
}

TEST(Scheduler, StartsTheHeadWhenItsBlockerEnds) {
  auto scheduler = with_a_head(policies::kEasy);
  EXPECT_THAT(starts(scheduler, 10), IsEmpty());
  scheduler.remove_allocation(run(1));
  EXPECT_THAT(starts(scheduler, 60), ElementsAre(run(2)));
  EXPECT_EQ(scheduler.head(), std::nullopt);
}

TEST(Scheduler, LetsWhoeverFitsPassWithoutAReservation) {
  auto scheduler = with_a_head(policies::kFifoGreedy);
  scheduler.add_pending(single_host_run(3, 1, 2, 1'000'000));
  EXPECT_THAT(starts(scheduler, 10), ElementsAre(run(3)));
}

TEST(Scheduler, StartsTheShortestFirst) {
  Scheduler scheduler(cluster({{1}}), policies::kShortest);
  scheduler.add_pending(single_host_run(1, 1, 0, 300));
  scheduler.add_pending(single_host_run(2, 1, 5, 100));
  scheduler.add_pending(single_host_run(3, 1, 4, 100));
  EXPECT_THAT(starts(scheduler, 10), ElementsAre(run(3)));
  scheduler.remove_allocation(run(3));
  EXPECT_THAT(starts(scheduler, 20), ElementsAre(run(2)));
}

TEST(Scheduler, LetsARunOfTwentyTimesItsLengthYoungerPassAndNoneYounger) {
  Scheduler scheduler(cluster({{1}}), policies::kOurs);
  scheduler.add_pending(single_host_run(1, 1, 0, 1000));      // key 20,000
  scheduler.add_pending(single_host_run(2, 1, 18'001, 100));  // key 20,001
  scheduler.add_pending(single_host_run(3, 1, 17'999, 100));  // key 19,999
  EXPECT_THAT(starts(scheduler, 18'001), ElementsAre(run(3)));
  scheduler.remove_allocation(run(3));
  EXPECT_THAT(starts(scheduler, 18'050), ElementsAre(run(1)));
}

TEST(Scheduler, CountsLongTimeOutsNoFurtherThanTheCap) {
  SchedulingPolicy policy = policies::kOurs;
  policy.aging_cap = seconds(100);
  Scheduler scheduler(cluster({{1}}), policy);
  scheduler.add_pending(single_host_run(1, 1, 1, 100));
  scheduler.add_pending(single_host_run(2, 1, 0, 90'000));
  EXPECT_THAT(starts(scheduler, 1), ElementsAre(run(2)));
}

TEST(Scheduler, LetsARunThatWasLostStandWhereItStood) {
  Scheduler scheduler(cluster({{1}}), policies::kOurs);
  PendingRun lost = single_host_run(1, 1, 0, 400);
  lost.time_used = seconds(600);
  scheduler.add_pending(lost);                            // key 20 x 1,000
  scheduler.add_pending(single_host_run(2, 1, 10, 900));  // key 18,010
  EXPECT_THAT(starts(scheduler, 20), ElementsAre(run(2)));
}

TEST(Scheduler, PutsAHigherPriorityAheadWhateverItsAge) {
  Scheduler scheduler(cluster({{1}}), policies::kOurs);
  scheduler.add_pending(single_host_run(1, 1, 0, 1));
  PendingRun urgent = single_host_run(2, 1, 500, 10'000);
  urgent.priority = 1;
  scheduler.add_pending(urgent);
  EXPECT_THAT(starts(scheduler, 500), ElementsAre(run(2)));
}

TEST(Scheduler, ForgetsARunThatWasWithdrawn) {
  auto scheduler = with_a_head(policies::kFifo);
  scheduler.add_pending(single_host_run(3, 1, 2, 1));
  scheduler.remove_pending(run(2));
  EXPECT_THAT(starts(scheduler, 10), ElementsAre(run(3)));
}

TEST(Place, FirstFitTakesTheLowestHosts) {
  Scheduler scheduler(pods_of_eights(2, 3), with(policies::kFifo, Fit::first));
  scheduler.add_allocation({run(1), {{"h1", {0}}}, at_second(9)});
  scheduler.add_pending(run_of_eights(2, 20, 0, 9));  // two whole hosts and half of one
  EXPECT_THAT(place_of_one(scheduler),
              ElementsAre("h0:0,1,2,3,4,5,6,7", "h2:0,1,2,3,4,5,6,7", "h1:1,2,3,4"));
}

TEST(Place, BestFitTakesTheTightestHostThenThePodWithTheFewestEmptyOnes) {
  Scheduler scheduler(pods_of_eights(2, 2), policies::kFifo);
  scheduler.add_allocation({run(1), {{"h1", {0, 1}}}, at_second(9)});
  scheduler.add_allocation({run(2), {{"h2", {0, 1}}}, at_second(9)});
  scheduler.add_allocation({run(3), {{"h3", {0, 1, 2, 3, 4, 5, 6, 7}}}, at_second(9)});
  scheduler.add_pending(run_of_eights(4, 2, 0, 9));
  EXPECT_THAT(place_of_one(scheduler), ElementsAre("h2:2,3"));
}

TEST(Place, LeastFragmentationKeepsWholeWhatRunsOfUsualSizesNeed) {
  EXPECT_EQ(host_growth(3, 1, 8), -3);
  EXPECT_EQ(host_growth(2, 1, 8), -1);
  EXPECT_EQ(host_growth(8, 1, 8), 11);
  EXPECT_EQ(pod_growth(4, 1, 4), 4);  // three: one is left of pairs, three of fours
  Scheduler scheduler(pods_of_eights(1, 2), with(policies::kFifo, Fit::fragmentation));
  scheduler.add_allocation({run(1), {{"h0", {0, 1, 2, 3, 4, 5}}}, at_second(9)});
  scheduler.add_allocation({run(2), {{"h1", {0, 1, 2, 3, 4}}}, at_second(9)});
  scheduler.add_pending(single_host_run(3, 1, 0, 9));
  EXPECT_THAT(place_of_one(scheduler), ElementsAre("h1:5"));  // h0 keeps a place for two
}

TEST(Place, BestFitPutsAGangsRemainderBesideWhoIsThere) {
  Scheduler scheduler(pods_of_eights(1, 4), policies::kFifo);
  scheduler.add_allocation({run(1), {{"h2", {0}}}, at_second(9)});
  scheduler.add_allocation({run(2), {{"h3", {0, 1}}}, at_second(9)});
  scheduler.add_pending(run_of_eights(3, 12, 0, 9));
  EXPECT_THAT(place_of_one(scheduler), ElementsAre("h0:0,1,2,3,4,5,6,7", "h3:2,3,4,5"));
}

TEST(Place, BestFitTakesThePodThatHasFewestHostsToSpare) {
  Scheduler scheduler(pods_of_eights(2, 3), policies::kFifo);
  scheduler.add_allocation({run(1), {{"h4", {0}}}, at_second(9)});
  scheduler.add_pending(run_of_eights(2, 16, 0, 9));
  EXPECT_THAT(place_of_one(scheduler), ElementsAre("h3:0,1,2,3,4,5,6,7", "h5:0,1,2,3,4,5,6,7"));
}

TEST(Place, AGangLargerThanAPodIsSpreadEvenlyOverTheFewest) {
  Scheduler scheduler(pods_of_eights(3, 4), policies::kFifo);
  scheduler.add_allocation({run(1), {{"h0", {0}}, {"h1", {0}}, {"h2", {0}}}, at_second(9)});
  scheduler.add_pending(run_of_eights(2, 48, 0, 9));
  const std::string whole = ":0,1,2,3,4,5,6,7";
  EXPECT_THAT(place_of_one(scheduler), ElementsAre("h4" + whole, "h5" + whole, "h6" + whole,
                                                   "h8" + whole, "h9" + whole, "h10" + whole));
}

TEST(ReasonUpdates, NameTheBlockerAndWhenTheHeadStarts) {
  auto scheduler = with_a_head(policies::kEasy);
  scheduler.add_pending(single_host_run(3, 1, 2, 500));
  scheduler.add_pending(single_host_run(4, 2, 3, 500));
  scheduler.schedule(at_second(10));
  const auto waiting = scheduler.waiting();
  ASSERT_EQ(waiting.size(), 3u);
  EXPECT_THAT(waiting[0].reason.line(),
              AllOf(HasSubstr("waits for demo/1"), HasSubstr("1 host with 2 free devices"),
                    HasSubstr("0 have")));
  EXPECT_EQ(waiting[0].blocker, run(1));
  EXPECT_EQ(waiting[0].expected_start, at_second(100));
  EXPECT_TRUE(waiting[0].reserved);
  EXPECT_FALSE(waiting[1].reserved);
  EXPECT_THAT(waiting[1].reason.line(), AllOf(HasSubstr("behind demo/2"), HasSubstr("8m 20s")));
  EXPECT_EQ(waiting[1].blocker, run(2));
  EXPECT_EQ(waiting[1].expected_start, std::nullopt);
  EXPECT_THAT(waiting[2].reason.line(), HasSubstr("behind demo/2"));
  EXPECT_THAT(scheduler.start_estimates(),
              ElementsAre(at_second(100), at_second(100 + 1000), at_second(100 + 1000 + 500)));
}

TEST(ReasonUpdates, OfWhoeverMayPassAreWhatItWaitsForItself) {
  auto scheduler = with_a_head(policies::kFifoGreedy);
  scheduler.add_allocation({run(9), {{"h0", {1}}}, at_second(50)});
  scheduler.add_pending(single_host_run(3, 1, 2, 500));
  scheduler.schedule(at_second(10));
  const auto waiting = scheduler.waiting();
  ASSERT_EQ(waiting.size(), 2u);
  EXPECT_EQ(waiting[0].blocker, run(1));
  EXPECT_EQ(waiting[1].blocker, run(9));
  EXPECT_FALSE(waiting[0].reserved || waiting[1].reserved) << "any run may delay both";
  EXPECT_THAT(waiting[1].reason.line(),
              AllOf(HasSubstr("waits for demo/9"), HasSubstr("1 host with 1 free device"),
                    HasSubstr("0 have")));
}

TEST(ReasonUpdates, OfARunThatTheMapCannotHoldNameNobodyAndNoTime) {
  Scheduler scheduler(cluster({{1, 1}}), policies::kEasy);
  scheduler.add_pending({.run = run(1), .nodes = 3});
  scheduler.schedule(at_second(0));
  const auto waiting = scheduler.waiting();
  ASSERT_EQ(waiting.size(), 1u);
  EXPECT_EQ(waiting[0].blocker, std::nullopt);
  EXPECT_EQ(waiting[0].expected_start, std::nullopt);
  EXPECT_EQ(scheduler.head(), std::nullopt);
}

// The reasons of all waiting runs, in queue order.
std::vector<std::string> reasons(Scheduler& scheduler) {
  std::vector<std::string> all;
  for (const WaitingRun& waiting : scheduler.waiting()) all.push_back(waiting.reason);
  return all;
}

PendingRun of_project(const std::string& project, PendingRun want) {
  want.run.project = project;
  return want;
}

TEST(Hosts, AClosedOneTakesNobodyNewAndKeepsWhoIsThere) {
  Scheduler scheduler(cluster({{2, 2}}), policies::kEasy);
  scheduler.add_allocation({run(1), {{"h0", {0}}}, at_second(100)});
  scheduler.set_host("h0", model::HostState::closed);
  scheduler.add_pending(single_host_run(2, 1, 0, 10));
  EXPECT_THAT(place_of_one(scheduler), ElementsAre("h1:0"));  // h0 would be the tighter one
  scheduler.remove_allocation(run(1));
  scheduler.add_pending(single_host_run(3, 2, 0, 10));
  EXPECT_THAT(starts(scheduler, 1), IsEmpty());
  EXPECT_THAT(reasons(scheduler),
              ElementsAre(AllOf(HasSubstr("waits for demo/2"),
                                HasSubstr("1 host with 2 free devices"), HasSubstr("0 have"))));
  scheduler.set_host("h0", model::HostState::open);
  EXPECT_THAT(starts(scheduler, 2), ElementsAre(run(3)));
}

TEST(Hosts, WhoeverCannotDoWithoutAClosedOneSaysSoAndBlocksNobody) {
  Scheduler scheduler(cluster({{2, 2}}), policies::kFifo);
  scheduler.set_host("h1", model::HostState::closed, "it lost demo/7 and demo/9");
  scheduler.add_pending({.run = run(1), .nodes = 2, .time_limit = seconds(10)});
  scheduler.add_pending(single_host_run(2, 1, 1, 10));
  EXPECT_THAT(starts(scheduler, 1), ElementsAre(run(2)));
  const auto waiting = scheduler.waiting();
  ASSERT_EQ(waiting.size(), 1u);
  EXPECT_THAT(waiting[0].reason.line(),
              AllOf(HasSubstr("2 hosts with 1 free device"), HasSubstr("h1 is cordoned"),
                    HasSubstr("it lost demo/7 and demo/9")));
  EXPECT_EQ(waiting[0].blocker, std::nullopt);
  EXPECT_EQ(scheduler.head(), std::nullopt);
  scheduler.set_host("h1", model::HostState::open);
  EXPECT_THAT(starts(scheduler, 2), ElementsAre(run(1)));
}

TEST(Hosts, AGangOfOnePodWaitsForItsClosedHostsAndDoesNotSpread) {
  Scheduler scheduler(cluster({{1, 1}, {1}}), policies::kFifo);
  scheduler.set_host("h0", model::HostState::closed);
  scheduler.add_pending({.run = run(1), .nodes = 2, .time_limit = seconds(10)});
  EXPECT_THAT(starts(scheduler, 0), IsEmpty());
}

TEST(Hosts, AnAvoidedOneIsTakenWhenNothingElseHasRoom) {
  Scheduler scheduler(cluster({{1, 1}}), policies::kFifo);
  scheduler.set_host("h0", model::HostState::avoided);
  scheduler.add_pending(single_host_run(1, 1, 0, 10));
  EXPECT_THAT(place_of_one(scheduler), ElementsAre("h1:0"));
  scheduler.add_pending(single_host_run(2, 1, 0, 10));
  EXPECT_THAT(place_of_one(scheduler), ElementsAre("h0:0"));
}

TEST(Hosts, ThatLostTwoRunsAreAvoidedAndAfterTheNextDrained) {
  EXPECT_EQ(state_after_losses(1), model::HostState::open);
  EXPECT_EQ(state_after_losses(2), model::HostState::avoided);
  EXPECT_EQ(state_after_losses(3), model::HostState::drained);
}

TEST(Hosts, AreChosenByWhatANodeNeedsBesideDevices) {
  map::ClusterMap map = cluster({{4, 4, 4}});
  auto& hosts = map.pods[0].leaves[0].hosts;
  hosts[0].cores = 8;
  hosts[1].cores = 16;
  hosts[1].memory = 64_GiB;
  for (auto& device : hosts[2].islands[0].devices) device.kind = map::DeviceKind::core;
  Scheduler scheduler(map, policies::kFifo);
  const auto with_needs = [](int number, model::Needs needs) {
    PendingRun want = single_host_run(number, 1, number, 10);
    want.needs = needs;
    return want;
  };
  const model::Needs half{.cores = 6, .memory = 40_GiB, .kind = map::DeviceKind::gpu};
  scheduler.add_pending(with_needs(1, half));  // of h0 the memory is not known: no bound
  scheduler.add_pending(with_needs(2, half));  // h0 has two cores left
  scheduler.add_pending(with_needs(3, half));  // and h1 24 GiB
  scheduler.add_pending(with_needs(4, {.kind = map::DeviceKind::core}));
  const Plan plan = scheduler.schedule(at_second(0));
  ASSERT_EQ(plan.placements.size(), 2u);
  EXPECT_THAT(placement_texts(plan.placements[0].devices), ElementsAre("h0:0"));
  EXPECT_THAT(placement_texts(plan.placements[1].devices), ElementsAre("h1:0"));
  EXPECT_THAT(
      reasons(scheduler),
      ElementsAre(AllOf(HasSubstr("waits for demo/1"), HasSubstr("1 host with 1 free device"),
                        HasSubstr("kind gpu"), HasSubstr("6 free cores"), HasSubstr("40.0 GiB"),
                        HasSubstr("0 have")),
                  HasSubstr("behind demo/3")));
  scheduler.remove_pending(run(3));
  EXPECT_THAT(place_of_one(scheduler), ElementsAre("h2:0"));
}

TEST(Hosts, ThatNobodyHasAreSaidToBeMissing) {
  map::ClusterMap map = cluster({{1}});
  map.pods[0].leaves[0].hosts[0].cores = 4;
  PendingRun want = single_host_run(1, 1, 0, 10);
  want.needs = {.cores = 5};
  const auto refused = check_fits(map, want);
  EXPECT_EQ(refused.error().code, Code::invalid);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("1 host with 1 device"), HasSubstr("5 free cores"),
                    HasSubstr("`lockstep map`")));
}

TEST(Limits, OfAProjectPassOverItsRunsUntilEnoughIsGivenBack) {
  Scheduler scheduler(cluster({{8}}), policies::kEasy);
  scheduler.set_limits({.project_devices = {{"demo", 3}}, .user_devices = {}});
  scheduler.add_allocation({run(1), {{"h0", {0}}}, at_second(50)});
  scheduler.add_allocation({run(2), {{"h0", {1}}}, at_second(40)});
  scheduler.add_pending(single_host_run(3, 3, 0, 10));
  scheduler.add_pending(of_project("other", single_host_run(4, 6, 1, 1000)));
  EXPECT_THAT(starts(scheduler, 1), ElementsAre(model::RunId{"other", 4}));
  const auto waiting = scheduler.waiting();
  ASSERT_EQ(waiting.size(), 1u);
  EXPECT_THAT(waiting[0].reason.line(),
              AllOf(HasSubstr("3 devices"), HasSubstr("project demo"), HasSubstr("2 of the 3")));
  EXPECT_EQ(waiting[0].blocker, run(1));
  EXPECT_EQ(waiting[0].expected_start, at_second(50));
  EXPECT_FALSE(waiting[0].reserved);
  scheduler.remove_allocation({"other", 4});
  scheduler.remove_allocation(run(2));
  EXPECT_THAT(starts(scheduler, 40), IsEmpty());
  scheduler.remove_allocation(run(1));
  EXPECT_THAT(starts(scheduler, 50), ElementsAre(run(3)));
}

// The head needs h1 whole, and its project's limit leaves one more device.
TEST(Limits, AreLeftToTheHeadByWhoPassesItUnlessHeEndsInTime) {
  const auto starts_of = [](const std::string& project, std::int64_t limit) {
    Scheduler scheduler(cluster({{1, 2}}), policies::kEasy);
    scheduler.set_limits({.project_devices = {{"demo", 3}}, .user_devices = {}});
    scheduler.add_allocation({run(1), {{"h1", {0}}}, at_second(100)});
    scheduler.add_pending(single_host_run(2, 2, 1, 1000));
    PendingRun behind = single_host_run(3, 1, 2, limit);
    behind.run.project = project;
    scheduler.add_pending(behind);
    return starts(scheduler, 10);
  };
  EXPECT_THAT(starts_of("demo", 91), IsEmpty());
  EXPECT_THAT(starts_of("demo", 90), ElementsAre(run(3)));
  EXPECT_THAT(starts_of("other", 91), ElementsAre(model::RunId{"other", 3}));
}

TEST(Limits, OfAUserCountInAllHisProjects) {
  Scheduler scheduler(cluster({{8}}), policies::kEasy);
  scheduler.set_limits({.project_devices = {}, .user_devices = {{"ada", 4}}});
  const auto of_ada = [](PendingRun want) {
    want.user = "ada";
    return want;
  };
  scheduler.add_pending(of_ada(single_host_run(1, 3, 0, 10)));
  scheduler.add_pending(of_ada(of_project("other", single_host_run(1, 2, 1, 10))));
  scheduler.add_pending(of_ada(single_host_run(2, 5, 2, 10)));
  scheduler.add_pending(single_host_run(3, 2, 3, 10));
  EXPECT_THAT(starts(scheduler, 5), ElementsAre(run(1), run(3)));
  EXPECT_THAT(
      reasons(scheduler),
      ElementsAre(AllOf(HasSubstr("2 devices"), HasSubstr("user ada"), HasSubstr("3 of the 4")),
                  AllOf(HasSubstr("5 devices"), HasSubstr("user ada"), HasSubstr("4 at once"))));
}

TEST(Priority, OrdersTheRunsOfAProjectAndMovesNobodyElse) {
  Scheduler scheduler(cluster({{1}}), policies::kFifo);
  scheduler.add_pending(single_host_run(1, 1, 10, 5));
  scheduler.add_pending(of_project("other", single_host_run(1, 1, 20, 5)));
  PendingRun urgent = single_host_run(2, 1, 30, 5);
  urgent.priority = 1;
  scheduler.add_pending(urgent);
  const auto next = [&](std::int64_t now) {
    const auto started = starts(scheduler, now);
    for (const model::RunId& one : started) scheduler.remove_allocation(one);
    return started;
  };
  EXPECT_THAT(next(40), ElementsAre(model::RunId{"other", 1}));  // demo/1 is behind demo/2
  EXPECT_THAT(next(45), ElementsAre(run(2)));
  EXPECT_THAT(next(50), ElementsAre(run(1)));
}

TEST(Priority, OfARunThatHasGoneLetsTheOthersStandWhereTheyStood) {
  Scheduler scheduler(cluster({{1}}), policies::kFifo);
  scheduler.add_allocation({run(9), {{"h0", {0}}}, at_second(35)});
  scheduler.add_pending(single_host_run(1, 1, 10, 5));
  scheduler.add_pending(of_project("other", single_host_run(1, 1, 20, 5)));
  PendingRun urgent = single_host_run(2, 1, 30, 5);
  urgent.priority = 1;
  scheduler.add_pending(urgent);
  EXPECT_THAT(starts(scheduler, 31), IsEmpty());
  EXPECT_EQ(scheduler.head(), (model::RunId{"other", 1}));
  scheduler.remove_pending(run(2));
  scheduler.remove_allocation(run(9));
  EXPECT_THAT(starts(scheduler, 35), ElementsAre(run(1)));
}

TEST(Share, CountsTheTimeOutOfAProjectThatUsesMoreAsLonger) {
  EXPECT_EQ(fair_share_used_percent(0, 0, 1, 2), 100);
  EXPECT_EQ(fair_share_used_percent(75, 100, 1, 2), 150);
  EXPECT_EQ(fair_share_used_percent(25, 100, 1, 2), 50);
  EXPECT_EQ(fair_share_used_percent(75, 100, 3, 4), 100);
  EXPECT_EQ(fair_share_used_percent(100, 100, 1, 100), kFairShareUsedMax);
  EXPECT_EQ(fair_share_used_percent(0, 100, 1, 2), kFairShareUsedMin);

  Scheduler scheduler(cluster({{1}}), {.aging = 20});
  PendingRun greedy = single_host_run(1, 1, 0, 100);
  greedy.fair_share_used = 150;  // key 3,000
  scheduler.add_pending(greedy);
  PendingRun modest = of_project("other", single_host_run(1, 1, 1'999, 100));
  modest.fair_share_used = 50;  // key 2,999
  scheduler.add_pending(modest);
  EXPECT_THAT(starts(scheduler, 1'999), ElementsAre(model::RunId{"other", 1}));
}

TEST(Reservations, KeepAPlaceForAsManyHeadsAsTheyAreSetTo) {
  const auto started_by = [](int reservations) {
    SchedulingPolicy policy = policies::kEasy;
    policy.reservations = reservations;
    Scheduler scheduler(cluster({{2, 2}}), policy);
    scheduler.add_allocation({run(1), {{"h0", {0, 1}}}, at_second(100)});
    scheduler.add_allocation({run(2), {{"h1", {0}}}, at_second(200)});
    scheduler.add_pending(single_host_run(3, 2, 0, 1000));  // at 100 on h0
    scheduler.add_pending(single_host_run(4, 2, 1, 1000));  // at 200 on h1
    scheduler.add_pending(single_host_run(5, 1, 2, 500));   // now on h1, until 510
    return starts(scheduler, 10);
  };
  EXPECT_THAT(started_by(1), ElementsAre(run(5)));
  EXPECT_THAT(started_by(2), IsEmpty());
}

TEST(After, ARunThatWouldWaitForItselfIsRefusedWithTheWayRound) {
  const std::map<model::RunId, std::vector<model::RunId>> waits = {{run(1), {run(2), run(4)}},
                                                                   {run(2), {run(3)}}};
  const auto after_of = [&](const model::RunId& one) {
    const auto found = waits.find(one);
    return found == waits.end() ? std::vector<model::RunId>{} : found->second;
  };
  const std::vector<model::RunId> fine = {run(1), run(2)}, round = {run(4), run(1)},
                                  itself = {run(5)};
  EXPECT_TRUE(check_no_cycle(run(5), fine, after_of));
  const auto refused = check_no_cycle(run(3), round, after_of);
  EXPECT_EQ(refused.error().code, Code::invalid);
  EXPECT_THAT(refused.error().message, HasSubstr("demo/3 after demo/1 after demo/2 after demo/3"));
  const auto refused_itself = check_no_cycle(run(5), itself, after_of);
  EXPECT_EQ(refused_itself.error().code, Code::invalid);
  EXPECT_THAT(refused_itself.error().message, HasSubstr("demo/5 after demo/5"));
}

// The debug share is one device; both waiting debug runs need more.
TEST(Waiting, StandsInTheOrderInWhichTheyStartBeyondTheLaneToo) {
  SchedulingPolicy policy = policies::kOurs;
  policy.debug_share_percent = 10;
  Scheduler scheduler(cluster({{10}}), policy);
  scheduler.add_allocation({run(1), {{"h0", {0, 1, 2, 3, 4, 5, 6, 7, 8}}}, at_second(500)});
  PendingRun late = single_host_run(3, 2, 50, 50);
  PendingRun early = single_host_run(4, 2, 0, 5);
  late.run_class = early.run_class = model::RunClass::debug;
  scheduler.add_pending(late);
  scheduler.add_pending(early);
  scheduler.add_pending(single_host_run(2, 2, 0, 10));
  EXPECT_THAT(starts(scheduler, 60), IsEmpty());
  std::vector<model::RunId> told;
  for (const WaitingRun& waiting : scheduler.waiting()) told.push_back(waiting.run);
  EXPECT_THAT(told, ElementsAre(run(4), run(2), run(3)));
  EXPECT_EQ(scheduler.head(), run(4));
  EXPECT_EQ(scheduler.waiting()[1].blocker, run(4));
}

}  // namespace
}  // namespace lockstep::sched

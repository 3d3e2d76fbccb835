#include "platform/core/sched/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/core/sched/cluster_for_test.h"

namespace lockstep {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing_cluster::at_second;
using testing_cluster::cluster;
using testing_cluster::eights;
using testing_cluster::of_eights;
using testing_cluster::places;
using testing_cluster::run;
using testing_cluster::runs_of;
using testing_cluster::small;

SchedulingPolicy with(SchedulingPolicy policy, Fit fit) {
  policy.fit = fit;
  return policy;
}

// Who starts at `now`, in which order.
std::vector<RunId> starts(Scheduler& scheduler, std::int64_t now) {
  return runs_of(scheduler.decide(at_second(now)).placements);
}

std::vector<std::string> place_of_one(Scheduler& scheduler) {
  const Plan plan = scheduler.decide(at_second(0));
  return plan.placements.size() == 1 ? places(plan.placements[0].slices)
                                     : std::vector<std::string>{};
}

// One host of two devices; demo/1 holds one until second 100, demo/2 wants both.
Scheduler with_a_head(const SchedulingPolicy& policy) {
  Scheduler scheduler(cluster({{2}}), policy);
  scheduler.hold({run(1), {{"h0", {0}}}, at_second(100)});
  scheduler.submit(small(2, 2, 1, 1000));
  return scheduler;
}

TEST(Scheduler, LetsNobodyPassTheHeadFirstComeFirstServed) {
  auto scheduler = with_a_head(policies::kFifo);
  scheduler.submit(small(3, 1, 2, 1));
  EXPECT_THAT(starts(scheduler, 10), IsEmpty());
  EXPECT_EQ(scheduler.head(), run(2));
}

TEST(Scheduler, BackfillsARunThatEndsWhenTheHeadCanStart) {
  auto scheduler = with_a_head(policies::kEasy);
  scheduler.submit(small(3, 1, 2, 91));
  scheduler.submit(small(4, 1, 3, 90));
  EXPECT_THAT(starts(scheduler, 10), ElementsAre(run(4)));
}

TEST(Scheduler, BackfillsALongRunOnDevicesThatTheHeadDoesNotNeed) {
  Scheduler scheduler(cluster({{2, 2}}), policies::kEasy);
  scheduler.hold({run(1), {{"h0", {0}}}, at_second(100)});
  scheduler.hold({run(2), {{"h1", {0}}}, at_second(200)});
  scheduler.submit(small(3, 2, 1, 1000));
  scheduler.submit(small(4, 1, 2, 5000));  // on h0 it would delay the head: best fit takes h0
  EXPECT_THAT(starts(scheduler, 10), IsEmpty());
  scheduler.hold({run(5), {{"h0", {1}}}, at_second(100)});
  EXPECT_THAT(starts(scheduler, 11), ElementsAre(run(4)));  // only h1 has room: the head needs h0
}

TEST(Scheduler, StartsTheHeadWhenItsBlockerEnds) {
  auto scheduler = with_a_head(policies::kEasy);
  EXPECT_THAT(starts(scheduler, 10), IsEmpty());
  scheduler.release(run(1));
  EXPECT_THAT(starts(scheduler, 60), ElementsAre(run(2)));
  EXPECT_EQ(scheduler.head(), std::nullopt);
}

TEST(Scheduler, LetsWhoeverFitsPassWithoutAReservation) {
  auto scheduler = with_a_head(policies::kFifoGreedy);
  scheduler.submit(small(3, 1, 2, 1'000'000));
  EXPECT_THAT(starts(scheduler, 10), ElementsAre(run(3)));
}

TEST(Scheduler, StartsTheShortestFirst) {
  Scheduler scheduler(cluster({{1}}), policies::kShortest);
  scheduler.submit(small(1, 1, 0, 300));
  scheduler.submit(small(2, 1, 5, 100));
  scheduler.submit(small(3, 1, 4, 100));
  EXPECT_THAT(starts(scheduler, 10), ElementsAre(run(3)));
  scheduler.release(run(3));
  EXPECT_THAT(starts(scheduler, 20), ElementsAre(run(2)));
}

TEST(Scheduler, LetsARunOfTwentyTimesItsLengthYoungerPassAndNoneYounger) {
  Scheduler scheduler(cluster({{1}}), policies::kOurs);
  scheduler.submit(small(1, 1, 0, 1000));      // key 20,000
  scheduler.submit(small(2, 1, 18'001, 100));  // key 20,001
  scheduler.submit(small(3, 1, 17'999, 100));  // key 19,999
  EXPECT_THAT(starts(scheduler, 18'001), ElementsAre(run(3)));
  scheduler.release(run(3));
  EXPECT_THAT(starts(scheduler, 18'050), ElementsAre(run(1)));
}

TEST(Scheduler, CountsLongTimeOutsNoFurtherThanTheCap) {
  SchedulingPolicy policy = policies::kOurs;
  policy.aging_cap = seconds(100);
  Scheduler scheduler(cluster({{1}}), policy);
  scheduler.submit(small(1, 1, 1, 100));
  scheduler.submit(small(2, 1, 0, 90'000));
  EXPECT_THAT(starts(scheduler, 1), ElementsAre(run(2)));
}

TEST(Scheduler, LetsARunThatWasLostStandWhereItStood) {
  Scheduler scheduler(cluster({{1}}), policies::kOurs);
  Want lost = small(1, 1, 0, 400);
  lost.used = seconds(600);
  scheduler.submit(lost);                  // key 20 x 1,000
  scheduler.submit(small(2, 1, 10, 900));  // key 18,010
  EXPECT_THAT(starts(scheduler, 20), ElementsAre(run(2)));
}

TEST(Scheduler, PutsAHigherPriorityAheadWhateverItsAge) {
  Scheduler scheduler(cluster({{1}}), policies::kOurs);
  scheduler.submit(small(1, 1, 0, 1));
  Want urgent = small(2, 1, 500, 10'000);
  urgent.priority = 1;
  scheduler.submit(urgent);
  EXPECT_THAT(starts(scheduler, 500), ElementsAre(run(2)));
}

TEST(Scheduler, ForgetsARunThatWasWithdrawn) {
  auto scheduler = with_a_head(policies::kFifo);
  scheduler.submit(small(3, 1, 2, 1));
  scheduler.withdraw(run(2));
  EXPECT_THAT(starts(scheduler, 10), ElementsAre(run(3)));
}

TEST(Place, FirstFitTakesTheLowestHosts) {
  Scheduler scheduler(eights(2, 3), with(policies::kFifo, Fit::first));
  scheduler.hold({run(1), {{"h1", {0}}}, at_second(9)});
  scheduler.submit(of_eights(2, 20, 0, 9));  // two whole hosts and half of one
  EXPECT_THAT(place_of_one(scheduler),
              ElementsAre("h0:0,1,2,3,4,5,6,7", "h2:0,1,2,3,4,5,6,7", "h1:1,2,3,4"));
}

TEST(Place, BestFitTakesTheTightestHostThenThePodWithTheFewestEmptyOnes) {
  Scheduler scheduler(eights(2, 2), policies::kFifo);
  scheduler.hold({run(1), {{"h1", {0, 1}}}, at_second(9)});
  scheduler.hold({run(2), {{"h2", {0, 1}}}, at_second(9)});
  scheduler.hold({run(3), {{"h3", {0, 1, 2, 3, 4, 5, 6, 7}}}, at_second(9)});
  scheduler.submit(of_eights(4, 2, 0, 9));
  EXPECT_THAT(place_of_one(scheduler), ElementsAre("h2:2,3"));
}

TEST(Place, BestFitPutsAGangsRemainderBesideWhoIsThere) {
  Scheduler scheduler(eights(1, 4), policies::kFifo);
  scheduler.hold({run(1), {{"h2", {0}}}, at_second(9)});
  scheduler.hold({run(2), {{"h3", {0, 1}}}, at_second(9)});
  scheduler.submit(of_eights(3, 12, 0, 9));
  EXPECT_THAT(place_of_one(scheduler), ElementsAre("h0:0,1,2,3,4,5,6,7", "h3:2,3,4,5"));
}

TEST(Place, BestFitTakesThePodThatHasFewestHostsToSpare) {
  Scheduler scheduler(eights(2, 3), policies::kFifo);
  scheduler.hold({run(1), {{"h4", {0}}}, at_second(9)});
  scheduler.submit(of_eights(2, 16, 0, 9));
  EXPECT_THAT(place_of_one(scheduler), ElementsAre("h3:0,1,2,3,4,5,6,7", "h5:0,1,2,3,4,5,6,7"));
}

TEST(Place, AGangLargerThanAPodIsSpreadEvenlyOverTheFewest) {
  Scheduler scheduler(eights(3, 4), policies::kFifo);
  scheduler.hold({run(1), {{"h0", {0}}, {"h1", {0}}, {"h2", {0}}}, at_second(9)});
  scheduler.submit(of_eights(2, 48, 0, 9));
  const std::string whole = ":0,1,2,3,4,5,6,7";
  EXPECT_THAT(place_of_one(scheduler), ElementsAre("h4" + whole, "h5" + whole, "h6" + whole,
                                                   "h8" + whole, "h9" + whole, "h10" + whole));
}

TEST(Reasons, NameTheBlockerAndWhenEachStartsAtTheLatest) {
  auto scheduler = with_a_head(policies::kEasy);
  scheduler.submit(small(3, 1, 2, 500));
  scheduler.submit(small(4, 2, 3, 500));
  scheduler.decide(at_second(10));
  const auto waiting = scheduler.waiting();
  ASSERT_EQ(waiting.size(), 3u);
  EXPECT_EQ(waiting[0].reason, "waits for demo/1: needs 1 host with 2 free devices, 0 have them");
  EXPECT_EQ(waiting[0].blocker, run(1));
  EXPECT_EQ(waiting[0].expected_start, at_second(100));
  EXPECT_EQ(waiting[1].reason,
            "waits behind demo/2, which it could delay by running for up to "
            "8m 20s");
  EXPECT_EQ(waiting[1].blocker, run(2));
  EXPECT_EQ(waiting[1].expected_start, at_second(100 + 1000));
  EXPECT_EQ(waiting[2].reason, "waits behind demo/2 in the queue");
  EXPECT_EQ(waiting[2].expected_start, at_second(100 + 1000 + 250));
}

TEST(Reasons, OfWhoeverMayPassAreWhatItWaitsForItself) {
  auto scheduler = with_a_head(policies::kFifoGreedy);
  scheduler.hold({run(9), {{"h0", {1}}}, at_second(50)});
  scheduler.submit(small(3, 1, 2, 500));
  scheduler.decide(at_second(10));
  const auto waiting = scheduler.waiting();
  ASSERT_EQ(waiting.size(), 2u);
  EXPECT_EQ(waiting[0].blocker, run(1));
  EXPECT_EQ(waiting[1].blocker, run(9));
  EXPECT_EQ(waiting[1].reason, "waits for demo/9: needs 1 host with 1 free device, 0 have them");
}

TEST(Reasons, OfARunThatTheMapCannotHoldNameNobodyAndNoTime) {
  Scheduler scheduler(cluster({{1, 1}}), policies::kEasy);
  scheduler.submit({.run = run(1), .nodes = 3});
  scheduler.decide(at_second(0));
  const auto waiting = scheduler.waiting();
  ASSERT_EQ(waiting.size(), 1u);
  EXPECT_EQ(waiting[0].blocker, std::nullopt);
  EXPECT_EQ(waiting[0].expected_start, std::nullopt);
  EXPECT_EQ(scheduler.head(), std::nullopt);
}

}  // namespace
}  // namespace lockstep

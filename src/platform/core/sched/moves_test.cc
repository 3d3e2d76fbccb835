#include "platform/core/sched/moves.h"

#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "platform/core/sched/cluster_for_test.h"
#include "platform/core/sched/pass.h"
#include "platform/core/sched/scheduler.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing_cluster::at_second;
using testing_cluster::eights;
using testing_cluster::of_eights;
using testing_cluster::places;
using testing_cluster::run;
using testing_cluster::runs_of;
using testing_cluster::small;

Holding holding(int number, std::string host, std::vector<int> devices, int moves_left = 3) {
  return {.run = run(number),
          .slices = {{std::move(host), std::move(devices)}},
          .expected_end = at_second(100'000),
          .moves_left = moves_left};
}

// Four hosts: two devices held on each of the first three, all of the last.
Scheduler scattered(int moves_left) {
  Scheduler scheduler(eights(1, 4), policies::kOursWithMoves);
  for (int i = 0; i < 3; ++i)
    scheduler.hold(holding(i + 1, lockstep::format("h{}", i), {0, 1}, moves_left));
  scheduler.hold(holding(4, "h3", {0, 1, 2, 3, 4, 5, 6, 7}));
  return scheduler;
}

TEST(Moves, GatherScatteredRoomForTheHead) {
  auto scheduler = scattered(3);
  scheduler.submit(of_eights(5, 16, 0, 100));
  const Plan plan = scheduler.decide(at_second(10));
  ASSERT_EQ(plan.moves.size(), 2u);
  EXPECT_EQ(plan.moves[0].run, run(1));
  EXPECT_THAT(places(plan.moves[0].slices), ElementsAre("h2:2,3"));
  EXPECT_EQ(plan.moves[1].run, run(2));
  EXPECT_THAT(places(plan.moves[1].slices), ElementsAre("h2:4,5"));
  EXPECT_THAT(runs_of(plan.placements), ElementsAre(run(5)));
}

TEST(Moves, AreNotMadeForRunsThatMayNotBeMovedOrAreGangs) {
  auto tired = scattered(0);
  tired.submit(of_eights(5, 16, 0, 100));
  EXPECT_THAT(tired.decide(at_second(10)).moves, IsEmpty());

  Scheduler gang(eights(1, 2), policies::kOursWithMoves);
  gang.hold({run(1), {{"h0", {0}}, {"h1", {0}}}, at_second(50), 3});
  gang.submit(of_eights(2, 8, 0, 100));
  EXPECT_THAT(gang.decide(at_second(10)).moves, IsEmpty());
}

TEST(Moves, AreNotMadeWhenMoreDevicesWouldMoveThanTheHeadGets) {
  Scheduler scheduler(eights(1, 3), policies::kOursWithMoves);
  scheduler.hold(holding(1, "h0", {0, 1, 2, 3, 4, 5}));
  scheduler.hold(holding(2, "h1", {0, 1, 2, 3, 4, 5}));
  scheduler.hold(holding(3, "h2", {0, 1, 2, 3, 4, 5}));
  scheduler.submit(small(4, 3, 0, 100));  // six are free, and one of six would have to go
  EXPECT_THAT(scheduler.decide(at_second(10)).moves, IsEmpty());
}

TEST(Moves, PutOffTheEndOfTheMovedRunByWhatItLoses) {
  auto scheduler = scattered(3);
  scheduler.submit(of_eights(5, 16, 0, 100));
  scheduler.submit(of_eights(6, 32, 1, 100));
  scheduler.decide(at_second(1'900));
  scheduler.release(run(5));
  scheduler.release(run(3));
  scheduler.decide(at_second(2'000));
  // Of 1,900 s since its start 100 have passed since the checkpoint, and it starts anew in 120.
  EXPECT_EQ(scheduler.waiting().at(0).expected_start, at_second(100'000 + 100 + 120));
}

TEST(Moves, KeepDevicesWhereARunGoesUntilItHasLeft) {
  SchedulingPolicy policy = policies::kOursWithMoves;
  policy.vacates_at_once = false;
  Scheduler scheduler(testing_cluster::cluster({{4, 4}}), policy);
  scheduler.hold(holding(1, "h0", {0}));
  scheduler.hold(holding(2, "h1", {0, 1}));
  scheduler.submit(small(3, 4, 0, 100));
  const Plan plan = scheduler.decide(at_second(10));
  ASSERT_EQ(plan.moves.size(), 1u);
  EXPECT_EQ(plan.moves[0].run, run(1));
  EXPECT_THAT(places(plan.moves[0].slices), ElementsAre("h1:2"));
  EXPECT_EQ(plan.makes_room_for.at(run(1)), run(3));
  EXPECT_THAT(plan.placements, IsEmpty());
  EXPECT_EQ(scheduler.waiting().at(0).blocker, run(1));

  scheduler.submit(small(4, 1, 10, 100));
  scheduler.submit(small(5, 1, 10, 100));
  const Plan next = scheduler.decide(at_second(11));
  EXPECT_THAT(next.moves, IsEmpty()) << "nobody is asked twice";
  ASSERT_THAT(runs_of(next.placements), ElementsAre(run(4)));
  EXPECT_THAT(places(next.placements[0].slices), ElementsAre("h1:3"));

  scheduler.release(run(1));
  Holding moved = holding(1, "h1", {2}, 2);
  moved.started = at_second(20);
  scheduler.hold(moved);
  EXPECT_THAT(runs_of(scheduler.decide(at_second(20)).placements), ElementsAre(run(3)));
}

TEST(Moves, LoseLeastWhereTheNewestCheckpointIsKnown) {
  Scheduler scheduler(testing_cluster::cluster({{1, 1}}), policies::kOursWithMoves);
  for (int number = 1; number <= 2; ++number) {
    Holding one = holding(number, number == 1 ? "h0" : "h1", {0}, 0);
    one.may_pause = true;
    one.saved = at_second(number == 1 ? 400 : 300);
    one.arrived = at_second(1'000'000);
    scheduler.hold(one);
  }
  scheduler.submit(small(3, 1, 0, 100));
  EXPECT_THAT(scheduler.decide(at_second(500)).evictions, ElementsAre(run(1)));
}

TEST(Moves, TakeRunsOffADrainedHostIfThereIsRoomElsewhere) {
  Scheduler scheduler(eights(1, 2), policies::kFifo);
  scheduler.hold(holding(1, "h0", {0, 1}));
  scheduler.hold(holding(2, "h0", {2, 3, 4, 5}));
  scheduler.hold(holding(3, "h0", {6}, 0));  // may not be moved: it is waited for
  scheduler.hold(holding(4, "h1", {0, 1}));
  scheduler.hold(holding(5, "h1", {2, 3, 4}));
  scheduler.set_host("h0", HostState::drained);
  const Plan plan = scheduler.decide(at_second(10));
  ASSERT_EQ(plan.moves.size(), 1u);
  EXPECT_EQ(plan.moves[0].run, run(1));
  EXPECT_THAT(places(plan.moves[0].slices), ElementsAre("h1:5,6"));
  scheduler.release(run(4));
  scheduler.release(run(5));
  ASSERT_EQ(scheduler.decide(at_second(20)).moves.size(), 1u);
}

RunId evicted(const Plan& plan) { return plan.evictions.size() == 1 ? plan.evictions[0] : RunId{}; }

Holding of_class(RunClass run_class, std::int64_t started, Holding holding) {
  holding.run_class = run_class;
  holding.started = at_second(started);
  return holding;
}

Want of_class(RunClass run_class, Want want) {
  want.run_class = run_class;
  return want;
}

// Three hosts of one device: preemptible runs since 100 and 1,500, and one that is not.
Scheduler with_preemptible() {
  Scheduler scheduler(testing_cluster::cluster({{1, 1, 1}}), policies::kEasy);
  scheduler.hold(of_class(RunClass::preemptible, 100, holding(1, "h0", {0})));
  scheduler.hold(of_class(RunClass::preemptible, 1'500, holding(2, "h1", {0})));
  scheduler.hold(of_class(RunClass::normal, 1'990, holding(3, "h2", {0})));
  return scheduler;
}

TEST(Evictions, TakeThePreemptibleRunThatLosesLeast) {
  auto scheduler = with_preemptible();
  scheduler.submit(small(4, 1, 0, 100));
  // At 2,000 the first has worked for 100 s since its checkpoint at 1,900, the second for 500.
  const Plan plan = scheduler.decide(at_second(2'000));
  EXPECT_EQ(evicted(plan), run(1));
  EXPECT_THAT(runs_of(plan.placements), ElementsAre(run(4)));
}

TEST(Evictions, AreNotForPreemptibleRunsAndNotInVain) {
  auto scheduler = with_preemptible();
  scheduler.submit(of_class(RunClass::preemptible, small(4, 1, 0, 100)));
  scheduler.submit({.run = run(5), .nodes = 3, .limit = std::chrono::seconds(10)});
  EXPECT_THAT(scheduler.decide(at_second(2'000)).evictions, IsEmpty());
}

TEST(Evictions, LetPreemptibleRunsPassTheHeadThatCanTakeTheirDevicesBack) {
  Scheduler scheduler(testing_cluster::cluster({{2}}), policies::kEasy);
  scheduler.hold(of_class(RunClass::normal, 0, holding(1, "h0", {0})));
  scheduler.submit(small(2, 2, 0, 100));
  scheduler.submit(of_class(RunClass::preemptible, small(3, 1, 1, 900'000)));
  EXPECT_THAT(runs_of(scheduler.decide(at_second(2)).placements), ElementsAre(run(3)));
  scheduler.release(run(1));
  const Plan plan = scheduler.decide(at_second(3));
  EXPECT_EQ(evicted(plan), run(3));
  EXPECT_THAT(runs_of(plan.placements), ElementsAre(run(2)));
}

// demo/4 could run beside demo/3 until demo/3 would end, but demo/2 has that evicted at 100.
TEST(Evictions, LetNobodyPassTheHeadByAPreemptibleRunThatHasPassedIt) {
  for (const bool vacates_at_once : {true, false}) {
    SchedulingPolicy policy = policies::kOurs;
    policy.vacates_at_once = vacates_at_once;
    Scheduler scheduler(testing_cluster::cluster({{3}}), policy);
    Holding first = holding(1, "h0", {0});
    first.expected_end = at_second(100);
    scheduler.hold(first);
    scheduler.submit(small(2, 3, 0, 100));
    scheduler.submit(of_class(RunClass::preemptible, small(3, 1, 1, 900)));
    scheduler.submit(small(4, 1, 1, 500));
    EXPECT_THAT(runs_of(scheduler.decide(at_second(10)).placements), ElementsAre(run(3)));
    EXPECT_EQ(scheduler.waiting().at(0).blocker, run(1));
    EXPECT_EQ(scheduler.waiting().at(0).expected_start, at_second(100));
    scheduler.release(run(1));
    EXPECT_EQ(evicted(scheduler.decide(at_second(100))), run(3));
  }
}

TEST(Evictions, AreNotCountedOnByAHeadThatIsPreemptibleItself) {
  Scheduler scheduler(testing_cluster::cluster({{1}}), policies::kOurs);
  scheduler.hold(of_class(RunClass::preemptible, 0, holding(1, "h0", {0})));
  scheduler.submit(of_class(RunClass::preemptible, small(2, 1, 0, 100)));
  EXPECT_THAT(scheduler.decide(at_second(10)).evictions, IsEmpty());
  EXPECT_EQ(scheduler.waiting().at(0).expected_start, at_second(100'000));
}

// Four devices at once are demo/1's and demo/2's. Beside demo/3 it would be the limit for which
// demo/2 waits, and nobody is evicted for that.
TEST(Evictions, AreNotNeededWherePreemptibleRunsLeaveTheHeadItsLimit) {
  Scheduler scheduler(testing_cluster::cluster({{3, 2}}), policies::kOurs);
  Limits limits;
  limits.project_devices["demo"] = 4;
  scheduler.set_limits(limits);
  scheduler.hold(holding(1, "h0", {0}));
  scheduler.submit(small(2, 3, 0, 100));
  scheduler.submit(of_class(RunClass::preemptible, small(3, 2, 1, 900'000)));
  EXPECT_THAT(scheduler.decide(at_second(10)).placements, IsEmpty());
}

Holding pausable(std::int64_t started, Holding holding) {
  holding.may_pause = true;
  holding.started = at_second(started);
  return holding;
}

TEST(Evictions, AreNotMadeTwiceForAHeadForWhomSomebodyLeaves) {
  SchedulingPolicy policy = policies::kEasy;
  policy.settles = true;
  policy.vacates_at_once = false;
  Scheduler scheduler(testing_cluster::cluster({{3}}), policy);
  scheduler.hold(of_class(RunClass::preemptible, 0, holding(1, "h0", {0})));
  scheduler.hold(of_class(RunClass::normal, 0, holding(2, "h0", {1})));
  scheduler.submit(small(3, 2, 0, 100));
  scheduler.submit(of_class(RunClass::preemptible, small(4, 1, 1, 100)));
  const Plan plan = scheduler.decide(at_second(10));
  EXPECT_EQ(evicted(plan), run(1));
  EXPECT_THAT(plan.placements, IsEmpty());  // the third device is the head's, too
  scheduler.release(run(1));
  EXPECT_THAT(runs_of(scheduler.decide(at_second(20)).placements), ElementsAre(run(3)));
}

// demo/4, which would delay demo/3 in the lane, may go ahead of it once demo/5 has filled the lane:
// then demo/6 makes room, which has been placed meanwhile.
TEST(Evictions, TakeBackAPreemptibleRunThatTheSameDecisionPlaced) {
  SchedulingPolicy policy = policies::kOurs;
  policy.lane_percent = 50;
  policy.vacates_at_once = false;
  Scheduler scheduler(testing_cluster::cluster({{10, 10}}), policy);
  Holding first = holding(1, "h0", {0, 1, 2, 3, 4, 5, 6, 7});
  first.expected_end = at_second(100);
  scheduler.hold(first);
  scheduler.hold(holding(2, "h1", {0, 1, 2, 3, 4, 5, 6, 7, 8}));
  scheduler.submit(of_class(RunClass::debug, small(3, 10, 1, 3'000)));
  scheduler.submit(small(4, 2, 0, 200));
  scheduler.submit(of_class(RunClass::debug, small(5, 1, 2, 3'000)));
  scheduler.submit(of_class(RunClass::preemptible, small(6, 2, 0, 200)));
  const Plan plan = scheduler.decide(at_second(10));
  EXPECT_THAT(plan.evictions, IsEmpty());
  EXPECT_THAT(runs_of(plan.placements), ElementsAre(run(5), run(4)));
  EXPECT_EQ(scheduler.waiting().back().run, run(6));
}

// A full host, and a lane of a quarter of it: two devices.
Scheduler with_a_lane(bool vacates_at_once) {
  SchedulingPolicy policy = policies::kEasy;
  policy.lane_percent = 25;
  policy.pausing = Pausing::debug;
  policy.vacates_at_once = vacates_at_once;
  Scheduler scheduler(eights(1, 1), policy);
  for (int number = 1; number <= 8; ++number)
    scheduler.hold(pausable(100 * number, holding(number, "h0", {number - 1})));
  return scheduler;
}

TEST(Lane, LetsDebugRunsStartAheadOfAllInsteadOfThoseWhoLoseLeast) {
  auto scheduler = with_a_lane(true);
  scheduler.submit(small(10, 1, 0, 100));
  scheduler.submit(of_class(RunClass::debug, small(11, 1, 1, 100)));
  // The first two have written their checkpoints: 160 and 60 s ago.
  const Plan plan = scheduler.decide(at_second(2'060));
  EXPECT_EQ(evicted(plan), run(2));
  EXPECT_THAT(runs_of(plan.placements), ElementsAre(run(11)));
}

TEST(Lane, IsNoWiderThanItsShareOfTheDevices) {
  auto scheduler = with_a_lane(true);
  for (int number = 11; number <= 13; ++number)
    scheduler.submit(of_class(RunClass::debug, small(number, 1, number, 100)));
  EXPECT_THAT(runs_of(scheduler.decide(at_second(3'000)).placements),
              ElementsAre(run(11), run(12)));
  scheduler.release(run(1));
  scheduler.submit(small(9, 1, 0, 100));  // came before the one that is beyond the lane
  EXPECT_THAT(runs_of(scheduler.decide(at_second(3'001)).placements), ElementsAre(run(9)));
  scheduler.release(run(2));
  EXPECT_THAT(runs_of(scheduler.decide(at_second(3'002)).placements), ElementsAre(run(13)));
}

TEST(Lane, WaitsForThoseWhoHaveToGoAndAsksNobodyElse) {
  auto scheduler = with_a_lane(false);
  scheduler.submit(small(10, 1, 0, 100));
  scheduler.submit(of_class(RunClass::debug, small(11, 1, 1, 100)));
  const Plan asked = scheduler.decide(at_second(2'060));
  EXPECT_EQ(evicted(asked), run(2));
  EXPECT_THAT(asked.placements, IsEmpty());
  EXPECT_EQ(scheduler.waiting().at(0).blocker, run(2));
  EXPECT_EQ(scheduler.waiting().at(0).expected_start, at_second(2'060));

  EXPECT_THAT(scheduler.decide(at_second(2'061)).evictions, IsEmpty());
  scheduler.release(run(2));
  const Plan then = scheduler.decide(at_second(2'070));
  EXPECT_THAT(runs_of(then.placements), ElementsAre(run(11)));
}

TEST(Pausing, MakesRoomForAHeadOfWholeHostsByThoseWhoStandBehindIt) {
  SchedulingPolicy policy = policies::kEasy;
  policy.pausing = Pausing::debug_and_large;
  const auto paused_for = [&](const Want& head) {
    Scheduler scheduler(testing_cluster::cluster({{2, 2}}), policy);
    for (int number = 1; number <= 4; ++number) {
      const std::string host = number <= 2 ? "h0" : "h1";
      Holding one = pausable(0, holding(number, host, {(number - 1) % 2}));
      one.arrived = at_second(100 * number);
      scheduler.hold(one);
    }
    scheduler.submit(head);
    return scheduler.decide(at_second(2'000)).evictions;
  };
  EXPECT_THAT(paused_for(small(5, 2, 250, 10)), ElementsAre(run(4), run(3)));
  EXPECT_THAT(paused_for(small(5, 2, 350, 10)), IsEmpty());  // on h1 demo/3 stands ahead of it
  EXPECT_THAT(paused_for(small(5, 1, 50, 10)), IsEmpty());   // it needs no whole host
}

TEST(Pausing, LetsEachRunWriteACheckpointBetweenTwo) {
  auto scheduler = with_a_lane(true);
  scheduler.submit(of_class(RunClass::debug, small(11, 1, 1, 100)));
  EXPECT_THAT(scheduler.decide(at_second(1'899)).evictions, IsEmpty());  // since 100 at the longest
  EXPECT_EQ(evicted(scheduler.decide(at_second(1'900))), run(1));
}

// A random load: what is kept gives what a pass from nothing gives, no device is held twice, nobody
// is moved more often than he may, or paused too soon, and no more devices move than those get who
// start.
class Rearranging {
 public:
  Rearranging(const SchedulingPolicy& policy, std::uint64_t seed)
      : random_(seed), policy_(policy), scheduler_(map_, policy) {}

  int moves() const { return moves_; }
  int evictions() const { return evictions_; }
  void play() {
    for (int number = 1; number <= 150; ++number) {
      now_ += 40;
      release_some();
      Want want = of_eights(number, size(), now_, 400);
      want.moves_left = 3;
      want.may_pause = random_.below(2) == 0;
      if (want.nodes == 1 && random_.below(4) == 0) want.run_class = RunClass::debug;
      if (random_.below(6) == 0) want.run_class = RunClass::preemptible;
      submit(want);
      decide();
    }
  }

 private:
  int size() {
    constexpr int kSizes[] = {1, 1, 2, 3, 4, 5, 8, 16, 24};
    return kSizes[random_.below(std::size(kSizes))];
  }

  void submit(const Want& want) {
    scheduler_.submit(want);
    queue_.emplace(want.run, want);
    wants_.insert_or_assign(want.run, want);
  }

  void release_some() {
    for (auto it = held_.begin(); it != held_.end();) {
      const bool ends = random_.below(7) == 0;
      if (ends) scheduler_.release(it->first);
      it = ends ? held_.erase(it) : std::next(it);
    }
  }

  void decide() {
    std::vector<Want> queue;
    for (const auto& [id, want] : queue_) queue.push_back(want);
    std::vector<Holding> held;
    for (const auto& [id, one] : held_) held.push_back(one);
    const Time now = at_second(now_);
    const Plan from_nothing = pass(map_, policy_, queue, held, now);
    const Plan plan = scheduler_.decide(now);
    EXPECT_EQ(plan.evictions, from_nothing.evictions);
    EXPECT_EQ(plan.moves, from_nothing.moves);
    EXPECT_EQ(plan.placements, from_nothing.placements);
    EXPECT_EQ(scheduler_.waiting(), from_nothing.waiting);
    carry_out(plan, now);
    check();
  }

  void carry_out(const Plan& plan, Time now) {
    std::size_t moved = 0, got = 0;
    for (const RunId& evicted : plan.evictions) {
      const Holding& one = held_.at(evicted);
      const bool paused = one.run_class == RunClass::normal && one.may_pause &&
                          now - one.started >= policy_.checkpoint_interval;
      EXPECT_TRUE(paused || one.run_class == RunClass::preemptible);
      held_.erase(evicted);
      ++evictions_;
    }
    for (const Move& move : plan.moves) {
      Holding& one = held_.at(move.run);
      EXPECT_GT(one.moves_left--, 0);
      one.expected_end += (now - one.started) % policy_.checkpoint_interval + policy_.restart_time;
      one.started = now;
      one.slices = move.slices;
      moved += move.slices[0].devices.size();
      ++moves_;
    }
    for (const Placement& start : plan.placements) {
      const Want& want = wants_.at(start.run);
      held_[start.run] = {.run = start.run,
                          .slices = start.slices,
                          .expected_end = now + want.limit,
                          .moves_left = 3,
                          .started = now,
                          .run_class = want.run_class,
                          .may_pause = want.may_pause,
                          .arrived = want.arrived,
                          .timeout = want.limit + want.used};
      queue_.erase(start.run);
      for (const Slice& slice : start.slices) got += slice.devices.size();
    }
    EXPECT_LE(moved, got);
    for (const RunId& evicted : plan.evictions) submit(wants_.at(evicted));
  }

  void check() const {
    std::set<std::pair<std::string, int>> taken;
    for (const auto& [id, one] : held_)
      for (const Slice& slice : one.slices)
        for (int device : slice.devices) EXPECT_TRUE(taken.emplace(slice.host, device).second);
  }

  Random random_;
  const Map map_ = eights(2, 4);
  const SchedulingPolicy policy_;
  Scheduler scheduler_;
  std::map<RunId, Want> queue_;
  std::map<RunId, Want> wants_;  // all there were
  std::map<RunId, Holding> held_;
  std::int64_t now_ = 0;
  int moves_ = 0;
  int evictions_ = 0;
};

TEST(Rearranging, KeepsItsPromisesOnRandomLoads) {
  SchedulingPolicy policy = policies::kOursWithMoves;
  policy.checkpoint_interval = std::chrono::seconds(100);
  for (const int reservations : {1, 3}) {
    policy.reservations = reservations;
    int moves = 0, evictions = 0;
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      SCOPED_TRACE(seed);
      Rearranging load(policy, seed);
      load.play();
      moves += load.moves();
      evictions += load.evictions();
      if (::testing::Test::HasFailure()) return;
    }
    EXPECT_GT(moves, 20);
    EXPECT_GT(evictions, 20);
  }
}

}  // namespace
}  // namespace lockstep

#include "platform/core/sched/preempt/relocations.h"

#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "platform/core/sched/cluster_for_test.h"
#include "platform/core/sched/pass.h"
#include "platform/core/sched/scheduler.h"

namespace lockstep::sched {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing_cluster::at_second;
using testing_cluster::placement_texts;
using testing_cluster::pods_of_eights;
using testing_cluster::run;
using testing_cluster::run_of_eights;
using testing_cluster::runs_of;
using testing_cluster::single_host_run;

Allocation holding(int number, std::string host, std::vector<int> devices, int moves_left = 3) {
  return {.run = run(number),
          .devices = {{std::move(host), std::move(devices)}},
          .expected_end = at_second(100'000),
          .moves_left = moves_left};
}

// Four hosts: two devices allocated on each of the first three, all of the last.
Scheduler scattered(int moves_left) {
  Scheduler scheduler(pods_of_eights(1, 4), policies::kOursWithMoves);
  for (int i = 0; i < 3; ++i)
    scheduler.add_allocation(holding(i + 1, lockstep::format("h{}", i), {0, 1}, moves_left));
  scheduler.add_allocation(holding(4, "h3", {0, 1, 2, 3, 4, 5, 6, 7}));
  return scheduler;
}

TEST(Moves, GatherScatteredRoomForTheHead) {
  auto scheduler = scattered(3);
  scheduler.add_pending(run_of_eights(5, 16, 0, 100));
  const Plan plan = scheduler.schedule(at_second(10));
  ASSERT_EQ(plan.moves.size(), 2u);
  EXPECT_EQ(plan.moves[0].run, run(1));
  EXPECT_THAT(placement_texts(plan.moves[0].devices), ElementsAre("h2:2,3"));
  EXPECT_EQ(plan.moves[1].run, run(2));
  EXPECT_THAT(placement_texts(plan.moves[1].devices), ElementsAre("h2:4,5"));
  EXPECT_THAT(runs_of(plan.placements), ElementsAre(run(5)));
}

TEST(Moves, AreNotMadeForRunsThatMayNotBeMovedOrAreGangs) {
  auto tired = scattered(0);
  tired.add_pending(run_of_eights(5, 16, 0, 100));
  EXPECT_THAT(tired.schedule(at_second(10)).moves, IsEmpty());

  Scheduler gang(pods_of_eights(1, 2), policies::kOursWithMoves);
  gang.add_allocation({run(1), {{"h0", {0}}, {"h1", {0}}}, at_second(50), 3});
  gang.add_pending(run_of_eights(2, 8, 0, 100));
  EXPECT_THAT(gang.schedule(at_second(10)).moves, IsEmpty());
}

TEST(Moves, AreNotMadeWhenMoreDevicesWouldMoveThanTheHeadGets) {
  Scheduler scheduler(pods_of_eights(1, 3), policies::kOursWithMoves);
  scheduler.add_allocation(holding(1, "h0", {0, 1, 2, 3, 4, 5}));
  scheduler.add_allocation(holding(2, "h1", {0, 1, 2, 3, 4, 5}));
  scheduler.add_allocation(holding(3, "h2", {0, 1, 2, 3, 4, 5}));
  scheduler.add_pending(
      single_host_run(4, 3, 0, 100));  // six are free, and one of six would have to go
  EXPECT_THAT(scheduler.schedule(at_second(10)).moves, IsEmpty());
}

TEST(Moves, PutOffTheEndOfTheMovedRunByWhatItLoses) {
  auto scheduler = scattered(3);
  scheduler.add_pending(run_of_eights(5, 16, 0, 100));
  scheduler.add_pending(run_of_eights(6, 32, 1, 100));
  scheduler.schedule(at_second(1'900));
  scheduler.remove_allocation(run(5));
  scheduler.remove_allocation(run(3));
  scheduler.schedule(at_second(2'000));
  // It loses the 100 s since its checkpoint at 1,800 s, and its restart takes 120 s.
  EXPECT_EQ(scheduler.waiting().at(0).expected_start, at_second(100'000 + 100 + 120));
}

TEST(Moves, KeepDevicesWhereARunGoesUntilItHasLeft) {
  SchedulingPolicy policy = policies::kOursWithMoves;
  policy.preempts_at_once = false;
  Scheduler scheduler(testing_cluster::cluster({{4, 4}}), policy);
  scheduler.add_allocation(holding(1, "h0", {0}));
  scheduler.add_allocation(holding(2, "h1", {0, 1}));
  scheduler.add_pending(single_host_run(3, 4, 0, 100));
  const Plan plan = scheduler.schedule(at_second(10));
  ASSERT_EQ(plan.moves.size(), 1u);
  EXPECT_EQ(plan.moves[0].run, run(1));
  EXPECT_THAT(placement_texts(plan.moves[0].devices), ElementsAre("h1:2"));
  EXPECT_EQ(plan.preempted_for.at(run(1)), run(3));
  EXPECT_THAT(plan.placements, IsEmpty());
  EXPECT_EQ(scheduler.waiting().at(0).blocker, run(1));

  scheduler.add_pending(single_host_run(4, 1, 10, 100));
  scheduler.add_pending(single_host_run(5, 1, 10, 100));
  const Plan next = scheduler.schedule(at_second(11));
  EXPECT_THAT(next.moves, IsEmpty()) << "nobody is asked twice";
  ASSERT_THAT(runs_of(next.placements), ElementsAre(run(4)));
  EXPECT_THAT(placement_texts(next.placements[0].devices), ElementsAre("h1:3"));

  scheduler.remove_allocation(run(1));
  Allocation moved = holding(1, "h1", {2}, 2);
  moved.started = at_second(20);
  scheduler.add_allocation(moved);
  EXPECT_THAT(runs_of(scheduler.schedule(at_second(20)).placements), ElementsAre(run(3)));
}

TEST(Moves, LoseLeastWhereTheNewestCheckpointIsKnown) {
  Scheduler scheduler(testing_cluster::cluster({{1, 1}}), policies::kOursWithMoves);
  for (int number = 1; number <= 2; ++number) {
    Allocation one = holding(number, number == 1 ? "h0" : "h1", {0}, 0);
    one.may_pause = true;
    one.last_checkpoint = at_second(number == 1 ? 400 : 300);
    one.arrived = at_second(1'000'000);
    scheduler.add_allocation(one);
  }
  scheduler.add_pending(single_host_run(3, 1, 0, 100));
  EXPECT_THAT(scheduler.schedule(at_second(500)).evictions, ElementsAre(run(1)));
}

TEST(Moves, TakeRunsOffADrainedHostIfThereIsRoomElsewhere) {
  Scheduler scheduler(pods_of_eights(1, 2), policies::kFifo);
  scheduler.add_allocation(holding(1, "h0", {0, 1}));
  scheduler.add_allocation(holding(2, "h0", {2, 3, 4, 5}));
  scheduler.add_allocation(holding(3, "h0", {6}, 0));  // may not be moved: it is waited for
  scheduler.add_allocation(holding(4, "h1", {0, 1}));
  scheduler.add_allocation(holding(5, "h1", {2, 3, 4}));
  scheduler.set_host("h0", model::HostState::drained);
  const Plan plan = scheduler.schedule(at_second(10));
  ASSERT_EQ(plan.moves.size(), 1u);
  EXPECT_EQ(plan.moves[0].run, run(1));
  EXPECT_THAT(placement_texts(plan.moves[0].devices), ElementsAre("h1:5,6"));
  scheduler.remove_allocation(run(4));
  scheduler.remove_allocation(run(5));
  ASSERT_EQ(scheduler.schedule(at_second(20)).moves.size(), 1u);
}

model::RunId evicted(const Plan& plan) {
  return plan.evictions.size() == 1 ? plan.evictions[0] : model::RunId{};
}

Allocation of_class(model::RunClass run_class, std::int64_t started, Allocation holding) {
  holding.run_class = run_class;
  holding.started = at_second(started);
  return holding;
}

PendingRun of_class(model::RunClass run_class, PendingRun want) {
  want.run_class = run_class;
  return want;
}

// Three hosts of one device: preemptible runs since 100 and 1,500, and one that is not.
Scheduler with_preemptible() {
  Scheduler scheduler(testing_cluster::cluster({{1, 1, 1}}), policies::kEasy);
  scheduler.add_allocation(of_class(model::RunClass::preemptible, 100, holding(1, "h0", {0})));
  scheduler.add_allocation(of_class(model::RunClass::preemptible, 1'500, holding(2, "h1", {0})));
  scheduler.add_allocation(of_class(model::RunClass::normal, 1'990, holding(3, "h2", {0})));
  return scheduler;
}

TEST(Evictions, TakeThePreemptibleRunThatLosesLeast) {
  auto scheduler = with_preemptible();
  scheduler.add_pending(single_host_run(4, 1, 0, 100));
  // At 2,000 the first has worked for 100 s since its checkpoint at 1,900, the second for 500.
  const Plan plan = scheduler.schedule(at_second(2'000));
  EXPECT_EQ(evicted(plan), run(1));
  EXPECT_THAT(runs_of(plan.placements), ElementsAre(run(4)));
}

TEST(Evictions, AreNotForPreemptibleRunsAndNotInVain) {
  auto scheduler = with_preemptible();
  scheduler.add_pending(of_class(model::RunClass::preemptible, single_host_run(4, 1, 0, 100)));
  scheduler.add_pending({.run = run(5), .nodes = 3, .time_limit = std::chrono::seconds(10)});
  EXPECT_THAT(scheduler.schedule(at_second(2'000)).evictions, IsEmpty());
}

TEST(Evictions, LetPreemptibleRunsPassTheHeadThatCanTakeTheirDevicesBack) {
  Scheduler scheduler(testing_cluster::cluster({{2}}), policies::kEasy);
  scheduler.add_allocation(of_class(model::RunClass::normal, 0, holding(1, "h0", {0})));
  scheduler.add_pending(single_host_run(2, 2, 0, 100));
  scheduler.add_pending(of_class(model::RunClass::preemptible, single_host_run(3, 1, 1, 900'000)));
  EXPECT_THAT(runs_of(scheduler.schedule(at_second(2)).placements), ElementsAre(run(3)));
  scheduler.remove_allocation(run(1));
  const Plan plan = scheduler.schedule(at_second(3));
  EXPECT_EQ(evicted(plan), run(3));
  EXPECT_THAT(runs_of(plan.placements), ElementsAre(run(2)));
}

// demo/4 could run beside demo/3 until demo/3 would end, but demo/2 evicts it at 100.
TEST(Evictions, LetNobodyPassTheHeadByAPreemptibleRunThatHasPassedIt) {
  for (const bool vacates_at_once : {true, false}) {
    SchedulingPolicy policy = policies::kOurs;
    policy.preempts_at_once = vacates_at_once;
    Scheduler scheduler(testing_cluster::cluster({{3}}), policy);
    Allocation first = holding(1, "h0", {0});
    first.expected_end = at_second(100);
    scheduler.add_allocation(first);
    scheduler.add_pending(single_host_run(2, 3, 0, 100));
    scheduler.add_pending(of_class(model::RunClass::preemptible, single_host_run(3, 1, 1, 900)));
    scheduler.add_pending(single_host_run(4, 1, 1, 500));
    EXPECT_THAT(runs_of(scheduler.schedule(at_second(10)).placements), ElementsAre(run(3)));
    EXPECT_EQ(scheduler.waiting().at(0).blocker, run(1));
    EXPECT_EQ(scheduler.waiting().at(0).expected_start, at_second(100));
    scheduler.remove_allocation(run(1));
    EXPECT_EQ(evicted(scheduler.schedule(at_second(100))), run(3));
  }
}

TEST(Evictions, AreNotCountedOnByAHeadThatIsPreemptibleItself) {
  Scheduler scheduler(testing_cluster::cluster({{1}}), policies::kOurs);
  scheduler.add_allocation(of_class(model::RunClass::preemptible, 0, holding(1, "h0", {0})));
  scheduler.add_pending(of_class(model::RunClass::preemptible, single_host_run(2, 1, 0, 100)));
  EXPECT_THAT(scheduler.schedule(at_second(10)).evictions, IsEmpty());
  EXPECT_EQ(scheduler.waiting().at(0).expected_start, at_second(100'000));
}

// demo/1 and demo/2 may hold four devices at once. With demo/3, demo/2 would wait for the limit,
// and no run is evicted for that.
TEST(Evictions, AreNotNeededWherePreemptibleRunsLeaveTheHeadItsLimit) {
  Scheduler scheduler(testing_cluster::cluster({{3, 2}}), policies::kOurs);
  Limits limits;
  limits.project_devices["demo"] = 4;
  scheduler.set_limits(limits);
  scheduler.add_allocation(holding(1, "h0", {0}));
  scheduler.add_pending(single_host_run(2, 3, 0, 100));
  scheduler.add_pending(of_class(model::RunClass::preemptible, single_host_run(3, 2, 1, 900'000)));
  EXPECT_THAT(scheduler.schedule(at_second(10)).placements, IsEmpty());
}

Allocation pausable(std::int64_t started, Allocation holding) {
  holding.may_pause = true;
  holding.started = at_second(started);
  return holding;
}

TEST(Evictions, AreNotMadeTwiceForAHeadForWhomSomebodyLeaves) {
  SchedulingPolicy policy = policies::kEasy;
  policy.repeats_until_stable = true;
  policy.preempts_at_once = false;
  Scheduler scheduler(testing_cluster::cluster({{3}}), policy);
  scheduler.add_allocation(of_class(model::RunClass::preemptible, 0, holding(1, "h0", {0})));
  scheduler.add_allocation(of_class(model::RunClass::normal, 0, holding(2, "h0", {1})));
  scheduler.add_pending(single_host_run(3, 2, 0, 100));
  scheduler.add_pending(of_class(model::RunClass::preemptible, single_host_run(4, 1, 1, 100)));
  const Plan plan = scheduler.schedule(at_second(10));
  EXPECT_EQ(evicted(plan), run(1));
  EXPECT_THAT(plan.placements, IsEmpty());  // the third device is the head's, too
  scheduler.remove_allocation(run(1));
  EXPECT_THAT(runs_of(scheduler.schedule(at_second(20)).placements), ElementsAre(run(3)));
}

// demo/4, which would delay demo/3 in the debug share, may go ahead of it once demo/5 has filled
// the share. Then demo/6 makes room, which has been placed meanwhile.
TEST(Evictions, TakeBackAPreemptibleRunThatTheSameDecisionPlaced) {
  SchedulingPolicy policy = policies::kOurs;
  policy.debug_share_percent = 50;
  policy.preempts_at_once = false;
  Scheduler scheduler(testing_cluster::cluster({{10, 10}}), policy);
  Allocation first = holding(1, "h0", {0, 1, 2, 3, 4, 5, 6, 7});
  first.expected_end = at_second(100);
  scheduler.add_allocation(first);
  scheduler.add_allocation(holding(2, "h1", {0, 1, 2, 3, 4, 5, 6, 7, 8}));
  scheduler.add_pending(of_class(model::RunClass::debug, single_host_run(3, 10, 1, 3'000)));
  scheduler.add_pending(single_host_run(4, 2, 0, 200));
  scheduler.add_pending(of_class(model::RunClass::debug, single_host_run(5, 1, 2, 3'000)));
  scheduler.add_pending(of_class(model::RunClass::preemptible, single_host_run(6, 2, 0, 200)));
  const Plan plan = scheduler.schedule(at_second(10));
  EXPECT_THAT(plan.evictions, IsEmpty());
  EXPECT_THAT(runs_of(plan.placements), ElementsAre(run(5), run(4)));
  EXPECT_EQ(scheduler.waiting().back().run, run(6));
}

// A full host, and a debug share of a quarter of it: two devices.
Scheduler with_a_lane(bool vacates_at_once) {
  SchedulingPolicy policy = policies::kEasy;
  policy.debug_share_percent = 25;
  policy.pause_policy = PausePolicy::debug;
  policy.preempts_at_once = vacates_at_once;
  Scheduler scheduler(pods_of_eights(1, 1), policy);
  for (int number = 1; number <= 8; ++number)
    scheduler.add_allocation(pausable(100 * number, holding(number, "h0", {number - 1})));
  return scheduler;
}

TEST(LinkChannel, LetsDebugRunsStartAheadOfAllInsteadOfThoseWhoLoseLeast) {
  auto scheduler = with_a_lane(true);
  scheduler.add_pending(single_host_run(10, 1, 0, 100));
  scheduler.add_pending(of_class(model::RunClass::debug, single_host_run(11, 1, 1, 100)));
  // The first two have written their checkpoints: 160 and 60 s ago.
  const Plan plan = scheduler.schedule(at_second(2'060));
  EXPECT_EQ(evicted(plan), run(2));
  EXPECT_THAT(runs_of(plan.placements), ElementsAre(run(11)));
}

TEST(LinkChannel, IsNoWiderThanItsShareOfTheDevices) {
  auto scheduler = with_a_lane(true);
  for (int number = 11; number <= 13; ++number)
    scheduler.add_pending(
        of_class(model::RunClass::debug, single_host_run(number, 1, number, 100)));
  EXPECT_THAT(runs_of(scheduler.schedule(at_second(3'000)).placements),
              ElementsAre(run(11), run(12)));
  scheduler.remove_allocation(run(1));
  scheduler.add_pending(
      single_host_run(9, 1, 0, 100));  // arrived before the one beyond the debug share
  EXPECT_THAT(runs_of(scheduler.schedule(at_second(3'001)).placements), ElementsAre(run(9)));
  scheduler.remove_allocation(run(2));
  EXPECT_THAT(runs_of(scheduler.schedule(at_second(3'002)).placements), ElementsAre(run(13)));
}

TEST(LinkChannel, WaitsForThoseWhoHaveToGoAndAsksNobodyElse) {
  auto scheduler = with_a_lane(false);
  scheduler.add_pending(single_host_run(10, 1, 0, 100));
  scheduler.add_pending(of_class(model::RunClass::debug, single_host_run(11, 1, 1, 100)));
  const Plan asked = scheduler.schedule(at_second(2'060));
  EXPECT_EQ(evicted(asked), run(2));
  EXPECT_THAT(asked.placements, IsEmpty());
  EXPECT_EQ(scheduler.waiting().at(0).blocker, run(2));
  EXPECT_EQ(scheduler.waiting().at(0).expected_start, at_second(2'060));

  EXPECT_THAT(scheduler.schedule(at_second(2'061)).evictions, IsEmpty());
  scheduler.remove_allocation(run(2));
  const Plan then = scheduler.schedule(at_second(2'070));
  EXPECT_THAT(runs_of(then.placements), ElementsAre(run(11)));
}

TEST(PausePolicy, MakesRoomForAHeadOfWholeHostsByThoseWhoStandBehindIt) {
  SchedulingPolicy policy = policies::kEasy;
  policy.pause_policy = PausePolicy::debug_and_large;
  const auto paused_for = [&](const PendingRun& head) {
    Scheduler scheduler(testing_cluster::cluster({{2, 2}}), policy);
    for (int number = 1; number <= 4; ++number) {
      const std::string host = number <= 2 ? "h0" : "h1";
      Allocation one = pausable(0, holding(number, host, {(number - 1) % 2}));
      one.arrived = at_second(100 * number);
      scheduler.add_allocation(one);
    }
    scheduler.add_pending(head);
    return scheduler.schedule(at_second(2'000)).evictions;
  };
  EXPECT_THAT(paused_for(single_host_run(5, 2, 250, 10)), ElementsAre(run(4), run(3)));
  EXPECT_THAT(paused_for(single_host_run(5, 2, 350, 10)),
              IsEmpty());                                             // on h1 demo/3 is ahead of it
  EXPECT_THAT(paused_for(single_host_run(5, 1, 50, 10)), IsEmpty());  // it needs no whole host
}

TEST(PausePolicy, LetsEachRunWriteACheckpointBetweenTwo) {
  auto scheduler = with_a_lane(true);
  scheduler.add_pending(of_class(model::RunClass::debug, single_host_run(11, 1, 1, 100)));
  EXPECT_THAT(scheduler.schedule(at_second(1'899)).evictions,
              IsEmpty());  // since 100 at the longest
  EXPECT_EQ(evicted(scheduler.schedule(at_second(1'900))), run(1));
}

// A random load: the kept state gives the same as a pass from nothing, no device is allocated
// twice, no run is moved too often or paused too soon, and no more devices move than the started
// runs get.
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
      PendingRun want = run_of_eights(number, size(), now_, 400);
      want.moves_left = 3;
      want.may_pause = random_.below(2) == 0;
      if (want.nodes == 1 && random_.below(4) == 0) want.run_class = model::RunClass::debug;
      if (random_.below(6) == 0) want.run_class = model::RunClass::preemptible;
      submit(want);
      decide();
    }
  }

 private:
  int size() {
    constexpr int kSizes[] = {1, 1, 2, 3, 4, 5, 8, 16, 24};
    return kSizes[random_.below(std::size(kSizes))];
  }

  void submit(const PendingRun& want) {
    scheduler_.add_pending(want);
    queue_.emplace(want.run, want);
    wants_.insert_or_assign(want.run, want);
  }

  void release_some() {
    for (auto it = held_.begin(); it != held_.end();) {
      const bool ends = random_.below(7) == 0;
      if (ends) scheduler_.remove_allocation(it->first);
      it = ends ? held_.erase(it) : std::next(it);
    }
  }

  void decide() {
    std::vector<PendingRun> queue;
    for (const auto& [id, want] : queue_) queue.push_back(want);
    std::vector<Allocation> held;
    for (const auto& [id, one] : held_) held.push_back(one);
    const Time now = at_second(now_);
    const Plan from_nothing = schedule_once(map_, policy_, queue, held, now);
    const Plan plan = scheduler_.schedule(now);
    EXPECT_EQ(plan.evictions, from_nothing.evictions);
    EXPECT_EQ(plan.moves, from_nothing.moves);
    EXPECT_EQ(plan.placements, from_nothing.placements);
    EXPECT_EQ(scheduler_.waiting(), from_nothing.waiting);
    carry_out(plan, now);
    check();
  }

  void carry_out(const Plan& plan, Time now) {
    std::size_t moved = 0, got = 0;
    for (const model::RunId& evicted : plan.evictions) {
      const Allocation& one = held_.at(evicted);
      const bool paused = one.run_class == model::RunClass::normal && one.may_pause &&
                          now - one.started >= policy_.checkpoint_interval;
      EXPECT_TRUE(paused || one.run_class == model::RunClass::preemptible);
      held_.erase(evicted);
      ++evictions_;
    }
    for (const Move& move : plan.moves) {
      Allocation& one = held_.at(move.run);
      EXPECT_GT(one.moves_left--, 0);
      one.expected_end += (now - one.started) % policy_.checkpoint_interval + policy_.restart_time;
      one.started = now;
      one.devices = move.devices;
      moved += move.devices[0].devices.size();
      ++moves_;
    }
    for (const Placement& start : plan.placements) {
      const PendingRun& want = wants_.at(start.run);
      held_[start.run] = {.run = start.run,
                          .devices = start.devices,
                          .expected_end = now + want.time_limit,
                          .moves_left = 3,
                          .started = now,
                          .run_class = want.run_class,
                          .may_pause = want.may_pause,
                          .arrived = want.arrived,
                          .timeout = want.time_limit + want.time_used};
      queue_.erase(start.run);
      for (const model::HostDevices& slice : start.devices) got += slice.devices.size();
    }
    EXPECT_LE(moved, got);
    for (const model::RunId& evicted : plan.evictions) submit(wants_.at(evicted));
  }

  void check() const {
    std::set<std::pair<std::string, int>> taken;
    for (const auto& [id, one] : held_)
      for (const model::HostDevices& slice : one.devices)
        for (int device : slice.devices) EXPECT_TRUE(taken.emplace(slice.host, device).second);
  }

  Random random_;
  const map::ClusterMap map_ = pods_of_eights(2, 4);
  const SchedulingPolicy policy_;
  Scheduler scheduler_;
  std::map<model::RunId, PendingRun> queue_;
  std::map<model::RunId, PendingRun> wants_;  // all there were
  std::map<model::RunId, Allocation> held_;
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
}  // namespace lockstep::sched

// Preemptible runs among others, on random loads: whenever they start, they delay no head that can
// evict them, and no other run passes it because of them.
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "platform/core/sched/cluster_for_test.h"
#include "platform/core/sched/pass.h"
#include "platform/core/sched/queue/waiting_list.h"
#include "platform/core/sched/scheduler.h"

namespace lockstep::sched {
namespace {

using testing_cluster::at_second;
using testing_cluster::cluster;
using testing_cluster::pods_of_eights;
using testing_cluster::run;
using testing_cluster::single_host_run;

class MixedLoad {
 public:
  MixedLoad(const SchedulingPolicy& policy, std::uint64_t seed)
      : random_(seed), policy_(policy), scheduler_(map_, policy) {}

  int starts_that_pass() const { return starts_that_pass_; }
  int evictions() const { return evictions_; }
  void play() {
    for (int number = 1; number <= 120; ++number) {
      now_ += static_cast<std::int64_t>(random_.below(40));
      release_some();
      submit(any_want(number));
      decide();
      if (::testing::Test::HasFailure()) return;
    }
  }

 private:
  PendingRun any_want(int number) {
    constexpr int kSizes[] = {1, 2, 4, 4, 8, 16, 24};
    const auto limit = static_cast<std::int64_t>(20 + random_.below(600));
    PendingRun want = testing_cluster::run_of_eights(
        number, kSizes[random_.below(std::size(kSizes))], now_, limit);
    if (random_.below(2) == 0) want.run_class = model::RunClass::preemptible;
    return want;
  }

  void submit(const PendingRun& want) {
    scheduler_.add_pending(want);
    queue_.emplace(want.run, want);
    wants_.insert_or_assign(want.run, want);
  }

  // Ends runs whose time is over, and some others; runs that were told to leave come back.
  void release_some() {
    const auto held = held_;
    for (const auto& [run, one] : held) {
      const bool ends = one.expected_end <= at_second(now_) || random_.below(12) == 0;
      if (one.leaving ? random_.below(2) == 0 : !ends) continue;
      scheduler_.remove_allocation(run);
      held_.erase(run);
      if (one.leaving) submit(wants_.at(run));
    }
  }

  void decide() {
    const Time now = at_second(now_);
    const Plan from_nothing = schedule_once(map_, policy_, wants(), holdings(), now);
    const Plan plan = scheduler_.schedule(now);
    const auto waiting = scheduler_.waiting();
    EXPECT_EQ(plan.evictions, from_nothing.evictions);
    EXPECT_EQ(plan.placements, from_nothing.placements);
    EXPECT_EQ(waiting, from_nothing.waiting);
    std::vector<model::RunId> back;
    for (const model::RunId& run : plan.evictions) evict(run, back);
    for (const Placement& start : plan.placements) begin(start);
    check_head(plan, waiting);
    for (const model::RunId& run : back) submit(wants_.at(run));
  }

  void evict(const model::RunId& run, std::vector<model::RunId>& back) {
    EXPECT_EQ(wants_.at(run).run_class, model::RunClass::preemptible);
    ++evictions_;
    if (policy_.preempts_at_once) {
      held_.erase(run);
      back.push_back(run);
    } else {
      held_.at(run).leaving = true;
      held_.at(run).expected_end = at_second(now_);
    }
  }

  void begin(const Placement& start) {
    const PendingRun& want = wants_.at(start.run);
    held_[start.run] = {.run = start.run,
                        .devices = start.devices,
                        .expected_end = at_second(now_) + want.time_limit,
                        .started = at_second(now_),
                        .run_class = want.run_class,
                        .arrived = want.arrived,
                        .timeout = want.time_limit};
    queue_.erase(start.run);
  }

  bool stands_ahead(const model::RunId& run, const PendingRun& head) const {
    const PendingRun& want = wants_.at(run);
    return want.run_class == model::RunClass::normal &&
           order_key(policy_, want) < order_key(policy_, head);
  }

  void check_head(const Plan& plan, const std::vector<WaitingRun>& waiting) {
    const auto former = std::exchange(head_, std::nullopt);
    for (const auto& [run, one] : held_)
      if (one.leaving) return;
    if (waiting.empty() || wants_.at(waiting[0].run).run_class != model::RunClass::normal) return;
    const PendingRun& head = wants_.at(waiting[0].run);
    head_ = waiting[0];
    // As if preemptible runs and those that pass it now held nothing.
    std::vector<Allocation> others;
    for (const auto& [run, one] : held_)
      if (one.run_class == model::RunClass::normal) others.push_back(one);
    bool was_passed = false;
    for (const Placement& start : plan.placements) {
      if (stands_ahead(start.run, head)) continue;
      was_passed = true;
      std::erase_if(others, [&](const Allocation& one) { return one.run == start.run; });
    }
    const Plan alone = schedule_once(map_, policy_, std::vector{head}, others, at_second(now_));
    ASSERT_EQ(alone.waiting.size(), 1u) << text(head.run) << " could have had them evicted";
    EXPECT_EQ(head_->expected_start, alone.waiting[0].expected_start) << text(head.run);
    starts_that_pass_ += int{was_passed};
    if (!former || former->run != head.run) return;
    for (const Placement& start : plan.placements)
      if (stands_ahead(start.run, head)) return;
    EXPECT_LE(head_->expected_start, former->expected_start) << text(head.run) << " is put off";
  }

  std::vector<PendingRun> wants() const {
    std::vector<PendingRun> all;
    for (const auto& [run, want] : queue_) all.push_back(want);
    return all;
  }
  std::vector<Allocation> holdings() const {
    std::vector<Allocation> all;
    for (const auto& [run, one] : held_) all.push_back(one);
    return all;
  }

  Random random_;
  const map::ClusterMap map_ = pods_of_eights(2, 3);
  const SchedulingPolicy policy_;
  Scheduler scheduler_;
  std::map<model::RunId, PendingRun> queue_;
  std::map<model::RunId, PendingRun> wants_;  // all there were
  std::map<model::RunId, Allocation> held_;
  std::optional<WaitingRun> head_;  // as reported, if no run was leaving
  std::int64_t now_ = 0;
  int starts_that_pass_ = 0;
  int evictions_ = 0;
};

TEST(Preemptible, RunsNeverPutOffAHeadThatCanHaveThemEvicted) {
  for (const bool vacates_at_once : {true, false}) {
    SchedulingPolicy policy = policies::kOurs;
    policy.preempts_at_once = vacates_at_once;
    int passes = 0, evictions = 0;
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
      SCOPED_TRACE(seed);
      MixedLoad load(policy, seed);
      load.play();
      passes += load.starts_that_pass();
      evictions += load.evictions();
      if (::testing::Test::HasFailure()) return;
    }
    EXPECT_GT(passes, 100);
    EXPECT_GT(evictions, 100);
  }
}

// A host of two devices: one is about to be freed, a run waits for both, and a preemptible one for
// one of them.
Scheduler while_one_leaves(SchedulingPolicy policy) {
  policy.repeats_until_stable = true;
  policy.preempts_at_once = false;
  Scheduler scheduler(cluster({{2}}), policy);
  scheduler.add_allocation(
      {.run = run(1), .devices = {{"h0", {0}}}, .expected_end = at_second(10), .leaving = true});
  scheduler.add_pending(single_host_run(2, 2, 0, 100));
  PendingRun preemptible = single_host_run(3, 1, 1, 100);
  preemptible.run_class = model::RunClass::preemptible;
  scheduler.add_pending(preemptible);
  return scheduler;
}

TEST(Preemptible, RunsLeaveAHeadTheDevicesThatItHasOnceTheOthersAreGone) {
  EXPECT_TRUE(while_one_leaves(policies::kOurs).schedule(at_second(1)).placements.empty());
}

// No reservation for the head: a requeued run would take its devices again.
TEST(PreemptibleDeathTest, RunsThatAPolicyTakesBackAgainAndAgainEndTheDecision) {
  Scheduler scheduler = while_one_leaves(policies::kFifoGreedy);
  EXPECT_DEATH(scheduler.schedule(at_second(1)), "takes them back without end");
}

}  // namespace
}  // namespace lockstep::sched

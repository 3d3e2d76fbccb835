// Bounds of starts: an example with known results, and random queues in which no run may start
// later than its bounds.
#include "platform/core/sched/queue/latest_start.h"

#include <limits>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "platform/core/sched/cluster_for_test.h"
#include "platform/core/sched/scheduler.h"

namespace lockstep::sched {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using testing_cluster::at_second;
using testing_cluster::cluster;
using testing_cluster::run;

// As in the daemon, but runs are never preempted.
constexpr SchedulingPolicy uninterrupted() {
  SchedulingPolicy policy = policies::kOursWithMoves;
  policy.moves = false;
  policy.pause_policy = PausePolicy::never;
  return policy;
}

// A scheduler, and the runs as its owner knows them.
class Cluster {
 public:
  Cluster(const map::ClusterMap& map, const SchedulingPolicy& policy)
      : policy_(policy), scheduler_(map, policy) {}

  void wait(const PendingRun& want) {
    later_.erase(want.run);
    scheduler_.add_pending(waiting_.emplace(want.run, want).first->second);
  }
  // The run waits for something other than devices.
  void wait_later(const PendingRun& want) { later_.emplace(want.run, want); }
  void end(const model::RunId& run) {
    scheduler_.remove_allocation(run);
    holding_.erase(run);
  }
  void set(const Limits& limits) {
    limits_ = limits;
    scheduler_.set_limits(limits);
  }
  // Returns the runs that start.
  std::vector<PendingRun> decide(Time now) {
    now_ = now;
    std::vector<PendingRun> started;
    for (const Placement& one : scheduler_.schedule(now).placements) {
      const PendingRun want = waiting_.extract(one.run).mapped();
      holding_[one.run] = {.run = one.run,
                           .devices = one.devices,
                           .expected_end = now + want.time_limit,
                           .run_class = want.run_class,
                           .user = want.user};
      started.push_back(want);
    }
    return started;
  }
  std::map<model::RunId, std::optional<Time>> latest() const {
    const auto told = scheduler_.waiting();
    LatestStartInput open;
    open.limits = limits_;
    for (const WaitingRun& one : told) open.waiting.push_back(&waiting_.at(one.run));
    for (const auto& [id, want] : later_) open.ineligible.push_back(&want);
    for (const auto& [id, holding] : holding_) open.allocations.push_back(&holding);
    const auto bounds = latest_start_times(policy_, told, open, now_);
    std::map<model::RunId, std::optional<Time>> latest;
    for (std::size_t i = 0; i < told.size(); ++i) latest[told[i].run] = bounds[i];
    return latest;
  }
  std::vector<std::optional<Time>> estimates() const { return scheduler_.start_estimates(); }

 private:
  const SchedulingPolicy policy_;
  Scheduler scheduler_;
  std::map<model::RunId, PendingRun> waiting_, later_;
  std::map<model::RunId, Allocation> holding_;
  Limits limits_;
  Time now_{};
};

PendingRun gang(int number, int nodes, int devices, int limit) {
  return {.run = run(number),
          .nodes = nodes,
          .devices = devices,
          .arrived = at_second(number),
          .time_limit = seconds(limit)};
}

// Two hosts of two devices: one run has them all for 20 s, the next takes one device on each for 40
// s. So the third, which needs both devices of one host, starts after 60 s, although enough device
// time is free after 40 s.
TEST(LatestStart, CountsHostsThatARunBeforeItTakesInPart) {
  Cluster cluster_of_two(cluster({{2, 2}}), uninterrupted());
  cluster_of_two.wait(gang(1, 2, 2, 20));
  cluster_of_two.decide(at_second(0));
  cluster_of_two.wait(gang(2, 2, 1, 40));
  cluster_of_two.wait(gang(3, 1, 2, 3600));
  cluster_of_two.decide(at_second(0));
  const auto latest = cluster_of_two.latest();
  EXPECT_EQ(latest.at(run(2)), at_second(20));
  EXPECT_EQ(latest.at(run(3)), at_second(60));
  EXPECT_THAT(cluster_of_two.estimates(), ElementsAre(at_second(20), at_second(60)));
}

TEST(LatestStart, AddsWhatEachRunTakesToStartAndToLeave) {
  SchedulingPolicy policy = uninterrupted();
  policy.overhead = seconds(5);
  Cluster one(cluster({{1}}), policy);
  one.wait(gang(1, 1, 1, 20));
  one.decide(at_second(0));
  one.wait(gang(2, 1, 1, 30));
  one.wait(gang(3, 1, 1, 40));
  one.decide(at_second(0));
  EXPECT_EQ(one.latest().at(run(2)), at_second(20 + 5));
  EXPECT_EQ(one.latest().at(run(3)), at_second(20 + 5 + 30 + 5));
}

TEST(LatestStart, IsNoneForARunUnderALimitAndWhileARunOutlivesItsOwn) {
  Cluster one(cluster({{1}}), uninterrupted());
  one.wait(gang(1, 1, 1, 20));
  one.decide(at_second(0));
  one.wait(gang(2, 1, 1, 30));
  one.decide(at_second(21));
  EXPECT_EQ(one.latest().at(run(2)), std::nullopt) << "demo/1 is overdue";
  one.end(run(1));
  one.decide(at_second(22));
  one.wait(gang(3, 1, 1, 30));
  one.decide(at_second(23));
  EXPECT_EQ(one.latest().at(run(3)), at_second(52));
  one.set({.project_devices = {{"demo", 1}}, .user_devices = {}});
  one.decide(at_second(24));
  EXPECT_EQ(one.latest().at(run(3)), std::nullopt);
}

// All runs are known from the beginning; some of them wait for devices only later. They end at any
// time within their limits.
class Trace {
 public:
  explicit Trace(std::uint64_t seed) : random_(seed) {
    for (int number = 1; number <= kRuns; ++number) {
      PendingRun want = gang(number, below(3) + 1, below(4) + 1, below(100) + 1);
      want.run.project = below(3) == 0 ? "other" : "demo";
      want.priority = below(4) == 0 ? below(3) - 1 : 0;
      if (below(6) == 0 && want.nodes == 1) want.run_class = model::RunClass::debug;
      if (below(5) == 0) {
        cluster_.wait_later(want);
        comes_[below(300)].push_back(want);
      } else {
        cluster_.wait(want);
      }
    }
    if (below(3) == 0) cluster_.set({.project_devices = {{"other", 6}}, .user_devices = {}});
  }

  // How many bounds were checked.
  int run() {
    decide(0);
    while (!ends_.empty() || !comes_.empty()) {
      const auto first = [](const auto& events) {
        return events.empty() ? std::numeric_limits<int>::max() : events.begin()->first;
      };
      const int now = std::min(first(ends_), first(comes_));
      if (const auto ended = ends_.extract(now))
        for (const model::RunId& id : ended.mapped()) cluster_.end(id);
      if (const auto come = comes_.extract(now))
        for (const PendingRun& want : come.mapped()) cluster_.wait(want);
      decide(now);
    }
    return kept_;
  }

 private:
  static constexpr int kRuns = 30;

  void decide(int now) {
    for (const PendingRun& want : cluster_.decide(at_second(now))) {
      const int limit = static_cast<int>(std::chrono::floor<seconds>(want.time_limit).count());
      ends_[now + (below(2) == 0 ? limit : below(limit) + 1)].push_back(want.run);
      const auto promise = promises_.find(want.run);
      if (promise == promises_.end()) continue;
      EXPECT_LE(at_second(now), promise->second) << text(want.run);
      ++kept_;
    }
    for (const auto& [id, latest] : cluster_.latest()) {
      if (!latest) continue;
      const auto [promise, is_new] = promises_.emplace(id, *latest);
      promise->second = std::min(promise->second, *latest);
    }
  }
  int below(int most) { return static_cast<int>(random_.below(static_cast<std::uint64_t>(most))); }

  Random random_;
  Cluster cluster_{cluster({{4, 4}, {4, 4, 4}}), uninterrupted()};
  std::map<int, std::vector<model::RunId>> ends_;
  std::map<int, std::vector<PendingRun>> comes_;
  std::map<model::RunId, Time> promises_;
  int kept_ = 0;
};

TEST(LatestStart, NoRunStartsLaterThanItWasEverTold) {
  constexpr int kTraces = 300;
  int kept = 0;
  for (std::uint64_t seed = 1; seed <= kTraces; ++seed) {
    SCOPED_TRACE(seed);
    kept += Trace(seed).run();
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(kept, 15 * kTraces) << "of thirty runs about half wait";
}

}  // namespace
}  // namespace lockstep::sched

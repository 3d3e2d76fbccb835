// The pass against itself and against the definitions of the policies, on random traces. The kept
// state gives the same plan as a pass from nothing, in any order of updates. Both start the same
// runs as the plain simulator, on the same hosts. Backfill never delays the head.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include <gtest/gtest.h>

#include "base/random.h"
#include "platform/core/sched/cluster_for_test.h"
#include "platform/core/sched/oracle/naive_scheduler_for_test.h"
#include "platform/core/sched/pass.h"
#include "platform/core/sched/scheduler.h"

namespace lockstep::sched {
namespace {

using testing_cluster::at_second;
using testing_cluster::pods_of_eights;
using testing_cluster::run_of_eights;

constexpr int kPods = 3;
constexpr int kHosts = 4;
constexpr int kJobs = 90;
constexpr int kProjects = 3;

// A run of the trace; times in seconds.
struct Job {
  int number = 0;
  int devices = 0;
  std::int64_t arrived = 0;
  std::int64_t duration = 0;
  std::int64_t limit = 0;  // at least the duration
  std::string project{};
  int priority = 0;
  int share = 100;
};

struct Named {
  std::string name;
  SchedulingPolicy policy;
};

std::vector<Named> all_policies() {
  std::vector<Named> all = {
      {"fifo", policies::kFifo},         {"greedy", policies::kFifoGreedy},
      {"easy", policies::kEasy},         {"easy_shortest", policies::kEasyShortest},
      {"shortest", policies::kShortest}, {"shortest_strict", policies::kShortestStrict},
      {"ours", policies::kOurs}};
  all.push_back({"easy_first_fit", policies::kEasy});
  all.back().policy.fit = Fit::first;
  return all;
}

std::vector<Job> random_trace(Random& random) {
  constexpr int kDevices[] = {1, 1, 1, 2, 3, 4, 7, 8, 12, 16, 20, 32};
  std::vector<Job> jobs;
  std::int64_t second = 0;
  for (int number = 1; number <= kJobs; ++number) {
    second += static_cast<std::int64_t>(random.below(12));
    const auto duration = static_cast<std::int64_t>(1 + random.below(random.below(4) ? 40 : 200));
    const auto slack = static_cast<std::int64_t>(random.below(3) ? 0 : random.below(60));
    jobs.push_back(
        {number, kDevices[random.below(std::size(kDevices))], second, duration, duration + slack});
    jobs.back().project = format("p{}", random.below(kProjects));
    jobs.back().priority = random.below(8) == 0 ? 1 : 0;
    jobs.back().share = random.below(4) == 0 ? 50 : 100;
  }
  return jobs;
}

template <class Item>
void shuffle(std::vector<Item>& items, Random& random) {
  for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[random.below(i)]);
}

// Plays a trace, second by second, with all three.
class Replay {
 public:
  Replay(const SchedulingPolicy& policy, std::uint64_t seed)
      : policy_(policy),
        random_(seed),
        scheduler_(map_, policy),
        naive_(map_, kHosts, policy),
        jobs_(random_trace(random_)) {}

  void run() {
    for (std::int64_t now = 0; ended_ < kJobs && now < 100'000; ++now) {
      bool news = ends(now);
      news = arrivals(now) || news;
      news = withdrawals() || news;
      news = estimates() || news;
      news = conditions() || news;
      if (news) decide(now);
      if (::testing::Test::HasFailure()) return;
    }
    EXPECT_EQ(ended_, kJobs);
  }

 private:
  bool ends(std::int64_t now) {
    const auto found = ends_.find(now);
    if (found == ends_.end()) return false;
    for (int number : found->second) {
      scheduler_.remove_allocation(run_of(number));
      std::erase_if(naive_.state().allocations,
                    [&](const Allocation& one) { return one.run == run_of(number); });
      held_.erase(number);
      ++ended_;
    }
    return true;
  }

  bool arrivals(std::int64_t now) {
    bool any = false;
    for (const Job& job : jobs_) {
      if (job.arrived != now) continue;
      PendingRun want = run_of_eights(job.number, job.devices, job.arrived, job.limit);
      want.run = run_of(job.number);
      want.priority = job.priority;
      want.fair_share_used = job.share;
      scheduler_.add_pending(want);
      naive_.state().waiting.push_back(want);
      queue_.emplace(job.number, want);
      any = true;
    }
    return any;
  }

  // Sometimes a user withdraws a run.
  bool withdrawals() {
    if (queue_.empty() || random_.below(60) > 0) return false;
    const auto leaves = std::next(queue_.begin(), static_cast<int>(random_.below(queue_.size())));
    scheduler_.remove_pending(run_of(leaves->first));
    std::erase_if(naive_.state().waiting,
                  [&](const PendingRun& one) { return one.run == run_of(leaves->first); });
    queue_.erase(leaves);
    ++ended_;
    return true;
  }

  // A running run may turn out to end earlier than expected.
  bool estimates() {
    if (held_.empty() || random_.below(60) > 0) return false;
    const auto found = std::next(held_.begin(), static_cast<int>(random_.below(held_.size())));
    const auto ends = std::ranges::find_if(ends_, [&](const auto& entry) {
      return std::ranges::count(entry.second, found->first) > 0;
    });
    found->second.expected_end = at_second(ends->first);
    scheduler_.set_expected_end(found->second.run, at_second(ends->first));
    for (Allocation& one : naive_.state().allocations)
      if (one.run == found->second.run) one.expected_end = at_second(ends->first);
    return true;
  }

  // An operator closes a host, opens another, or sets a limit; at the end all settings are removed.
  bool conditions() {
    const bool ends = ended_ > kJobs * 3 / 4;
    if (ends ? conditions_.hosts.empty() && conditions_.limits == Limits{} : random_.below(25) > 0)
      return false;
    for (const HostStatus& one : conditions_.hosts)
      scheduler_.set_host(one.host, model::HostState::open);
    conditions_ = {};
    head_.reset();
    if (!ends) {
      for (int i = 0; i < 2; ++i) {
        const std::string host = format("h{}", random_.below(kPods * kHosts));
        std::erase_if(conditions_.hosts, [&](const HostStatus& one) { return one.host == host; });
        constexpr model::HostState kStates[] = {model::HostState::open, model::HostState::avoided,
                                                model::HostState::closed};
        conditions_.hosts.push_back({host, kStates[random_.below(3)]});
      }
      conditions_.limits.project_devices["p0"] = static_cast<int>(random_.below(40));
    }
    for (const HostStatus& one : conditions_.hosts) scheduler_.set_host(one.host, one.state);
    scheduler_.set_limits(conditions_.limits);
    naive_.state().settings = conditions_;
    return true;
  }

  model::RunId run_of(int number) const {
    return {jobs_[static_cast<std::size_t>(number - 1)].project, number};
  }

  void decide(std::int64_t now) {
    const Plan from_nothing = pass_from_nothing(now);
    const Plan plan = scheduler_.schedule(at_second(now));
    EXPECT_EQ(plan.placements, from_nothing.placements);
    EXPECT_EQ(scheduler_.waiting(), from_nothing.waiting);
    compare(plan.placements, naive_.pass(at_second(now)));
    for (const Placement& placement : plan.placements) begin(placement, now);
    check_waiting(from_nothing);
  }

  Plan pass_from_nothing(std::int64_t now) {
    std::vector<PendingRun> queue;
    for (const auto& [number, want] : queue_) queue.push_back(want);
    std::vector<Allocation> held;
    for (const auto& [number, holding] : held_) held.push_back(holding);
    shuffle(queue, random_);
    shuffle(held, random_);
    return schedule_once(map_, policy_, queue, held, at_second(now), conditions_);
  }

  void compare(const std::vector<Placement>& placements, const std::vector<Allocation>& expected) {
    ASSERT_EQ(placements.size(), expected.size());
    for (std::size_t i = 0; i < placements.size(); ++i) {
      EXPECT_EQ(placements[i].run, expected[i].run);
      EXPECT_EQ(counts(placements[i].devices), counts(expected[i].devices))
          << "of " << text(placements[i].run);
    }
  }

  // The naive scheduler chooses hosts, and how many devices of each.
  static std::vector<std::pair<std::string, std::size_t>> counts(
      const std::vector<model::HostDevices>& slices) {
    std::vector<std::pair<std::string, std::size_t>> all;
    for (const model::HostDevices& slice : slices)
      all.emplace_back(slice.host, slice.devices.size());
    return all;
  }

  void begin(const Placement& placement, std::int64_t now) {
    const int number = static_cast<int>(placement.run.number);
    const Job& job = jobs_[static_cast<std::size_t>(number - 1)];
    queue_.erase(number);
    held_[number] = {placement.run, placement.devices, at_second(now + job.limit)};
    ends_[now + job.duration].push_back(number);
  }

  // The single head stays the head until it starts.
  void check_waiting(const Plan& plan) {
    EXPECT_EQ(plan.waiting.size(), queue_.size());
    const auto first = std::ranges::find_if(
        plan.waiting, [&](const WaitingRun& one) { return one.run == scheduler_.head(); });
    if (first == plan.waiting.end()) {
      EXPECT_FALSE(scheduler_.head());
      return head_.reset();
    }
    const WaitingRun& head = *first;
    // No run from behind passes it; a run that exceeded a limit may be ahead.
    if (policy_.order == QueueOrder::arrival && policy_.backfill_mode != BackfillMode::greedy &&
        conditions_.limits == Limits{}) {
      if (head_ && head_->run == head.run) {
        EXPECT_LE(head.expected_start, head_->expected_start) << "the head is put off";
      }
    }
    head_ = head;
    check_blocker(head);
  }

  // Runs end in the order of their expected ends: without those up to the blocker the head starts,
  // with the blocker it does not.
  void check_blocker(const WaitingRun& head) {
    ASSERT_TRUE(head.blocker);
    const auto turn = [](const Allocation& one) {
      return std::tuple(one.expected_end, one.run.number, one.run);
    };
    const Allocation& blocker = held_.at(static_cast<int>(head.blocker->number));
    std::vector<Allocation> with, without;
    for (const auto& [number, one] : held_) {
      if (turn(one) >= turn(blocker)) with.push_back(one);
      if (turn(one) > turn(blocker)) without.push_back(one);
    }
    const std::vector<PendingRun> alone = {queue_.at(static_cast<int>(head.run.number))};
    const OperatorSettings hosts{conditions_.hosts, {}};
    EXPECT_TRUE(schedule_once(map_, policy_, alone, with, {}, hosts).placements.empty());
    EXPECT_EQ(schedule_once(map_, policy_, alone, without, {}, hosts).placements.size(), 1u);
  }

  const map::ClusterMap map_ = pods_of_eights(kPods, kHosts);
  const SchedulingPolicy policy_;
  Random random_;
  Scheduler scheduler_;
  testing_naive::NaiveScheduler naive_;
  const std::vector<Job> jobs_;
  std::map<int, PendingRun> queue_;
  std::map<int, Allocation> held_;
  std::map<std::int64_t, std::vector<int>> ends_;
  std::optional<WaitingRun> head_;
  OperatorSettings conditions_;
  int ended_ = 0;
};

class SchedulerProperties : public testing::TestWithParam<Named> {};

TEST_P(SchedulerProperties, KeptOrFromNothingItStartsWhomTheDefinitionStarts) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(seed);
    Replay(GetParam().policy, seed).run();
    if (::testing::Test::HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, SchedulerProperties, testing::ValuesIn(all_policies()),
                         [](const auto& named) { return named.param.name; });

// On maps of all kinds, which the plain simulator does not support.
TEST(SchedulerOnAnyMap, AGangIsWholeAndNoDeviceIsTakenTwice) {
  Random random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::vector<int>> pods(1 + random.below(4));
    for (auto& hosts : pods)
      for (auto n = 1 + random.below(5); n > 0; --n)
        hosts.push_back(static_cast<int>(1 + random.below(8)));
    Scheduler scheduler(testing_cluster::cluster(pods), policies::kOurs);
    std::map<model::RunId, PendingRun> wants;
    for (int i = 1; i <= 20; ++i) {
      PendingRun want{.run = testing_cluster::run(i),
                      .nodes = static_cast<int>(1 + random.below(6)),
                      .devices = static_cast<int>(1 + random.below(5)),
                      .arrived = at_second(i),
                      .time_limit = std::chrono::seconds(1 + random.below(100))};
      want.remainder = static_cast<int>(random.below(static_cast<std::uint64_t>(want.devices)));
      scheduler.add_pending(want);
      wants.emplace(want.run, want);
    }
    std::set<std::pair<std::string, int>> taken;
    for (const Placement& placement : scheduler.schedule(at_second(30)).placements) {
      const PendingRun& want = wants.at(placement.run);
      ASSERT_EQ(std::ssize(placement.devices), want.nodes + (want.remainder > 0 ? 1 : 0));
      std::set<std::string> hosts;
      for (std::size_t i = 0; i < placement.devices.size(); ++i) {
        const model::HostDevices& slice = placement.devices[i];
        EXPECT_EQ(std::ssize(slice.devices),
                  static_cast<int>(i) < want.nodes ? want.devices : want.remainder);
        EXPECT_TRUE(hosts.insert(slice.host).second) << "two nodes on one host";
        for (int device : slice.devices) EXPECT_TRUE(taken.emplace(slice.host, device).second);
      }
    }
    for (const WaitingRun& waiting : scheduler.waiting()) EXPECT_FALSE(waiting.reason.empty());
  }
}

}  // namespace
}  // namespace lockstep::sched

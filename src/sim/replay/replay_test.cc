#include "sim/replay/replay.h"

#include <algorithm>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "sim/replay/pass_backend.h"
#include "sim/replay/replay_policy.h"
#include "sim/replay/schedule.h"
#include "sim/replay/step_backend.h"

namespace lockstep::sim {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Row {
  int submitted, duration, devices;
};

JobTrace trace_of(const std::vector<Row>& rows) {
  JobTrace trace{.name = "jobs.csv", .jobs = {}};
  for (const Row& row : rows)
    trace.jobs.push_back({Seconds(row.submitted), Seconds(row.duration), row.devices,
                          static_cast<int>(trace.jobs.size()) + 2});
  return trace;
}

template <class Decides = PassBackend>
Result<ReplayResult> replayed_by(const std::string& policy_name, const JobTrace& trace,
                                 const ReplayCluster& cluster) {
  const ReplayPolicy policy = parse_policy(policy_name).value();
  const map::ClusterMap map = map_of(cluster);
  const auto limits = limits_of(trace, policy.estimates);
  const auto wants = pending_runs_of(trace, limits, cluster.devices);
  TRY(check_all_fit(trace, wants, map));
  Decides backend(map, policy.policy, wants);
  return replay(trace, cluster.all_devices(), backend);
}

std::vector<std::int64_t> starts_of(const ReplayResult& replayed) {
  std::vector<std::int64_t> starts;
  for (const JobOutcome& job : replayed.jobs) starts.push_back(job.started.count());
  return starts;
}

std::vector<std::int64_t> starts_by(const std::string& policy, const std::vector<Row>& rows,
                                    const ReplayCluster& cluster) {
  return starts_of(replayed_by(policy, trace_of(rows), cluster).value());
}

constexpr ReplayCluster kTwoHosts{.hosts = 2, .devices = 4, .pod = 2};

// The second needs both hosts, of which the first has one until 1,000.
const std::vector<Row> kQueue = {
    {0, 1000, 4}, {100, 500, 8}, {200, 300, 2}, {300, 2000, 2}, {400, 100, 4}};

TEST(Replay, FirstComeFirstServedWaitsBehindTheHead) {
  EXPECT_THAT(starts_by("fifo", kQueue, kTwoHosts), ElementsAre(0, 1000, 1500, 1500, 1500));
}

TEST(Replay, GreedyStartsWhoeverFitsThoughTheHeadWaitsLonger) {
  // The fourth holds two devices until 2,300.
  EXPECT_THAT(starts_by("fifo-greedy", kQueue, kTwoHosts), ElementsAre(0, 2300, 200, 300, 1000));
}

TEST(Replay, WithBackfillTheHeadIsPassedByThoseWhoDoNotDelayIt) {
  // The third ends by 1,000; the fourth would not; the fifth does once the third has ended.
  EXPECT_THAT(starts_by("easy", kQueue, kTwoHosts), ElementsAre(0, 1000, 200, 1500, 500));
}

TEST(Replay, WithBackfillALongJobPassesOnDevicesThatTheHeadDoesNotNeed) {
  // At 1,000 the head takes one host, and the last may go on holding a device of the other.
  const std::vector<Row> rows = {{0, 1000, 3}, {0, 1000, 3}, {10, 100, 4}, {20, 9000, 1}};
  EXPECT_THAT(starts_by("easy", rows, kTwoHosts), ElementsAre(0, 0, 1000, 20));
}

TEST(Replay, WithBackfillOfTheShortestTheyPassTheHeadFirst) {
  // The second waits until 1,000. One of the last two may pass it on the other half of a host.
  const std::vector<Row> rows = {{0, 1000, 6}, {10, 100, 8}, {20, 800, 2}, {20, 500, 2}};
  EXPECT_THAT(starts_by("easy", rows, kTwoHosts), ElementsAre(0, 1000, 20, 1100));
  EXPECT_THAT(starts_by("easy-sjbf", rows, kTwoHosts), ElementsAre(0, 1000, 1100, 20));
}

TEST(Replay, TheShortestStartsFirst) {
  const std::vector<Row> rows = {{0, 100, 8}, {1, 50, 8}, {2, 10, 8}, {3, 10, 8}};
  EXPECT_THAT(starts_by("sjf-strict", rows, kTwoHosts), ElementsAre(0, 120, 100, 110));
}

TEST(Replay, AgingLetsAShortOnePassWhoCameLittleEarlier) {
  // Keys: 1 + 2 x 100, 90 + 2 x 10, 199 + 2 x 10.
  const std::vector<Row> rows = {{0, 300, 8}, {1, 100, 8}, {90, 10, 8}, {199, 10, 8}};
  EXPECT_THAT(starts_by("aged2", rows, kTwoHosts), ElementsAre(0, 310, 300, 410));
}

TEST(Replay, InASecondAllEndsComeFirstThenAllArrivals) {
  const std::vector<Row> rows = {{0, 10, 8}, {10, 5, 8}, {10, 3, 8}};
  EXPECT_THAT(starts_by("sjf-strict", rows, kTwoHosts), ElementsAre(0, 13, 10));
}

TEST(Replay, AGangOfMoreThanAHostTakesWholeHostsAndARestOnOneMore) {
  const std::vector<Row> rows = {{0, 100, 3}, {0, 50, 5}, {0, 10, 1}};
  // One empty host and one device beside the three.
  EXPECT_THAT(starts_by("fifo", rows, kTwoHosts), ElementsAre(0, 0, 50));
}

TEST(Replay, AGangStaysInsideAPod) {
  const ReplayCluster pods{.hosts = 4, .devices = 4, .pod = 2};
  const std::vector<Row> rows = {{0, 100, 2}, {0, 80, 8}, {0, 50, 8}};
  EXPECT_THAT(starts_by("fifo", rows, pods), ElementsAre(0, 0, 80));
}

TEST(Replay, ASmallJobIsMovedForAHeadThatWouldFit) {
  // From 100 on each host has one device held, and the last job needs a whole host.
  const std::vector<Row> rows = {
      {0, 100, 3}, {0, 10'000, 1}, {0, 100, 3}, {0, 10'000, 1}, {110, 50, 4}};
  EXPECT_EQ(starts_by("easy", rows, kTwoHosts).back(), 10'000);
  const ReplayResult moved = replayed_by("easy-defrag", trace_of(rows), kTwoHosts).value();
  EXPECT_EQ(moved.jobs[4].started, Seconds(110));
  EXPECT_EQ(moved.jobs[1].moves + moved.jobs[3].moves, 1);
  EXPECT_EQ(moved.jobs[1].ended + moved.jobs[3].ended, Seconds(20'000 + 110 + 120));
  EXPECT_EQ(moved.lost, Seconds(110 + 120));
}

TEST(Replay, AJobThatTheClusterCannotHoldIsRefusedWithItsLine) {
  const auto replayed = replayed_by("fifo", trace_of({{0, 1, 1}, {0, 1, 9}}), kTwoHosts);
  EXPECT_THAT(replayed.error().message,
              AllOf(HasSubstr("jobs.csv:3: "), HasSubstr("9 devices"), HasSubstr("--hosts")));
}

// Returns the decisions that a test lists.
class Script : public ReplayBackend {
 public:
  explicit Script(std::map<Seconds, Decision> decisions) : decisions_(std::move(decisions)) {}
  Result<Decision> decide(Seconds now, std::span<const JobId> ended,
                          std::span<const JobId> arrived) override {
    for (const JobId job : ended) told.push_back(format("{}: {} ends", now.count(), job));
    for (const JobId job : arrived) told.push_back(format("{}: {} comes", now.count(), job));
    return decisions_[now];
  }

  std::vector<std::string> told;

 private:
  std::map<Seconds, Decision> decisions_;
};

Decision start(int job) { return {.moved = {}, .started = {JobId(job)}, .head = {}}; }

TEST(Replay, ABackendIsToldEachSecondWhoEndsAndWhoComes) {
  const JobTrace trace = trace_of({{0, 10, 1}, {10, 5, 1}});
  Script script({{Seconds(0), start(0)}, {Seconds(10), start(1)}});
  ASSERT_TRUE(replay(trace, 1, script).has_value());
  EXPECT_THAT(script.told, ElementsAre("0: 0 comes", "10: 0 ends", "10: 1 comes", "15: 1 ends"));
}

TEST(Replay, AnEvictedJobWaitsAgainAndGoesOnFromItsLastCheckpoint) {
  const JobTrace trace = trace_of({{0, 10'000, 2}, {2'000, 50, 1}});
  Script script({
      {Seconds(0), start(0)},
      {Seconds(2'000), {.evicted = {JobId(0)}, .moved = {}, .started = {JobId(1)}, .head = {}}},
      {Seconds(2'050), start(0)},
  });
  const ReplayResult replayed = replay(trace, 2, script).value();
  EXPECT_EQ(replayed.jobs[0].started, Seconds(0));
  // 1,800 s of 2,000 s are kept, and 120 s are added.
  EXPECT_EQ(replayed.jobs[0].ended, Seconds(2'050 + 10'000 - 1'800 + 120));
  EXPECT_EQ(replayed.jobs[0].evictions, 1);
  EXPECT_EQ(replayed.lost, Seconds((200 + 120) * 2));
  EXPECT_TRUE(replayed.moments[1].any_job_waits);
}

TEST(Replay, AMovedJobGoesOnFromItsLastCheckpointAndRestartsForTwoMinutes) {
  const JobTrace trace = trace_of({{0, 10'000, 2}, {2'000, 50, 1}, {4'000, 50, 1}});
  Script script({
      {Seconds(0), start(0)},
      {Seconds(2'000), {.moved = {JobId(0)}, .started = {JobId(1)}, .head = {}}},
      {Seconds(4'000), {.moved = {JobId(0)}, .started = {JobId(2)}, .head = {}}},
  });
  const ReplayResult replayed = replay(trace, 8, script).value();
  // Twice 1,800 s of 2,000 are kept, and 120 s are added.
  EXPECT_EQ(replayed.jobs[0].ended, Seconds(10'000 + 2 * (200 + 120)));
  EXPECT_EQ(replayed.jobs[0].started, Seconds(0));
  EXPECT_EQ(replayed.jobs[0].moves, 2);
  EXPECT_EQ(replayed.lost, Seconds(2 * 2 * (200 + 120)));
}

TEST(Replay, ASchedulerThatStartsNobodyIsAnError) {
  const JobTrace trace = trace_of({{0, 10, 1}, {5, 10, 1}});
  Script script({{Seconds(0), start(0)}});
  EXPECT_THAT(replay(trace, 1, script).error().message,
              HasSubstr("of 2 jobs 1 wait, nothing runs"));
}

JobTrace any_trace(std::uint64_t seed) {
  Random random(seed);
  std::vector<Row> rows;
  for (int now = 0; rows.size() < 400; now += static_cast<int>(random.below(900))) {
    const int sizes[] = {1, 1, 1, 1, 2, 4, 8, 12, 16};
    rows.push_back({now, 1 + static_cast<int>(random.below(9'000)), sizes[random.below(9)]});
  }
  return trace_of(rows);
}

TEST(Replay, TheSameTraceGivesTheSameSchedule) {
  const ReplayCluster cluster{.hosts = 4, .devices = 8, .pod = 2};
  for (const char* policy : {"fifo", "easy-est", "sjf", "aged20x72-est-defrag"}) {
    const ReplayResult once = replayed_by(policy, any_trace(7), cluster).value();
    const ReplayResult again = replayed_by(policy, any_trace(7), cluster).value();
    EXPECT_EQ(sums_of(once).sha, sums_of(again).sha) << policy;
    EXPECT_EQ(once.lost, again.lost) << policy;
  }
}

TEST(Replay, TheWholeStepGivesTheScheduleOfThePassByItself) {
  const ReplayCluster cluster{.hosts = 4, .devices = 8, .pod = 2};
  std::ptrdiff_t ever_scattered = 0;
  for (const char* policy :
       {"fifo", "fifo-greedy", "easy", "easy-sjbf", "sjf", "sjf-strict", "aged20x72-est-first"}) {
    const ReplayResult pass = replayed_by(policy, any_trace(7), cluster).value();
    const ReplayResult step = replayed_by<StepBackend>(policy, any_trace(7), cluster).value();
    EXPECT_EQ(sums_of(step).sha, sums_of(pass).sha) << policy;
    const auto scattered = [](const ReplayResult& replayed) {
      return std::ranges::count(replayed.moments, true, &UsageSample::head_fragmented);
    };
    EXPECT_EQ(scattered(step), scattered(pass)) << policy;
    ever_scattered += scattered(pass);
  }
  EXPECT_GT(ever_scattered, 0);
}

TEST(Policy, IsKnownByItsName) {
  EXPECT_EQ(parse_policy("fifo").value().policy.backfill_mode, sched::BackfillMode::none);
  EXPECT_EQ(parse_policy("sjf").value().policy.order, sched::QueueOrder::shortest);
  const ReplayPolicy policy = parse_policy("aged15x72-est-defrag-first").value();
  EXPECT_EQ(policy.name, "aged15x72-est-defrag-first");
  EXPECT_EQ(policy.policy.order, sched::QueueOrder::aged);
  EXPECT_EQ(policy.policy.aging, 15);
  EXPECT_EQ(policy.policy.aging_cap, std::chrono::hours(72));
  EXPECT_TRUE(policy.policy.moves);
  EXPECT_EQ(policy.policy.fit, sched::Fit::first);
  EXPECT_EQ(policy.estimates, Estimates::bucketed);
  EXPECT_EQ(parse_policy("aged20").value().policy.aging_cap, Duration(0));
  EXPECT_FALSE(parse_policy("easy").value().policy.moves);
}

TEST(Policy, ThatIsNotKnownIsRefusedWithTheNearest) {
  EXPECT_THAT(parse_policy("fito").error().message,
              HasSubstr("there is no policy 'fito', did you mean 'fifo'? write fifo,"));
  for (const char* name :
       {"", "aged", "aged0", "aged-5", "aged1001", "aged20x", "agedx3", "easy-", "-est"})
    EXPECT_THAT(parse_policy(name).error().message, HasSubstr("there is no policy")) << name;
}

TEST(Policy, EstimatesAreTheNextUsualTimeout) {
  const auto estimate = [](int seconds) {
    return estimate_of(Seconds(seconds), Estimates::bucketed).count();
  };
  EXPECT_EQ(estimate(1), 300);
  EXPECT_EQ(estimate(300), 300);
  EXPECT_EQ(estimate(301), 900);
  EXPECT_EQ(estimate(604'800), 604'800);
  EXPECT_EQ(estimate(604'801), 2 * 604'800);
  EXPECT_EQ(estimate(3'000'000), 8 * 604'800);
  EXPECT_EQ(estimate_of(Seconds(301), Estimates::exact).count(), 301);
}

}  // namespace
}  // namespace lockstep::sim

#include "platform/finding/detector.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace lockstep::finding {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Time kBegin{std::chrono::hours(24 * 365 * 50)};

// The step times of ranks that train together: a common part that drifts and jumps, noise of each
// rank that is correlated from step to step, and now and then a pause of a few steps, as of a
// garbage collection or a checkpoint.
class NoisyRanks {
 public:
  NoisyRanks(int ranks, unsigned seed) : random_(seed), noise_(static_cast<std::size_t>(ranks)) {
    for (std::size_t rank = 0; rank < noise_.size(); ++rank) {
      bias_.push_back(std::exp(0.03 * normal_(random_)));
      pause_.push_back(0);
    }
  }
  int ranks() const { return static_cast<int>(noise_.size()); }

  void next_step() {
    base_ *= std::exp(0.02 * normal_(random_));
    if (uniform_(random_) < 0.005) base_ *= uniform_(random_) < 0.5 ? 2 : 0.5;
    base_ = std::clamp(base_, 0.05, 5.0);
    for (std::size_t rank = 0; rank < noise_.size(); ++rank) {
      noise_[rank] = 0.7 * noise_[rank] + 0.05 * normal_(random_);
      if (pause_[rank] > 0) --pause_[rank];
      if (uniform_(random_) < 0.003) pause_[rank] = 1 + static_cast<int>(uniform_(random_) * 4);
    }
  }
  double seconds_of(int rank) {
    const auto at = static_cast<std::size_t>(rank);
    return base_ * bias_[at] * std::exp(noise_[at] + 0.05 * normal_(random_)) *
           (pause_[at] > 0 ? 4 : 1);
  }

 private:
  std::mt19937 random_;
  std::normal_distribution<double> normal_{};
  std::uniform_real_distribution<double> uniform_{0, 1};
  double base_ = 0.5;
  std::vector<double> noise_, bias_;
  std::vector<int> pause_;
};

// Nodes of four ranks deliver steps of several seconds at once, one node after the other.
class Training {
 public:
  explicit Training(int ranks) : ranks_(ranks) {
    detector_.set_size(static_cast<std::size_t>(ranks), static_cast<std::size_t>(ranks + 3) / 4);
  }

  void log(int rank, std::int64_t step, Readings values) {
    detector_.observe_metrics({.rank = rank, .node = rank / 4}, step,
                              kBegin + step * milliseconds(500), values);
    for (Finding& finding : detector_.take_changes()) changes_.push_back(std::move(finding));
  }
  // Each node delivers the steps [first, first + count).
  template <class SecondsOf>
  void deliver(std::int64_t first, std::int64_t count, SecondsOf seconds_of) {
    for (int node = 0; node * 4 < ranks_; ++node)
      for (std::int64_t step = first; step < first + count; ++step)
        for (int rank = node * 4; rank < std::min(ranks_, node * 4 + 4); ++rank)
          log(rank, step, {{"compute_seconds", seconds_of(rank, step)}});
  }
  const std::vector<Finding>& changes() const { return changes_; }
  Detector& detector() { return detector_; }

 private:
  const int ranks_;
  Detector detector_;
  std::vector<Finding> changes_;
};

std::vector<std::vector<double>> recorded(NoisyRanks& ranks, int steps) {
  std::vector<std::vector<double>> times;
  for (int step = 0; step < steps; ++step) {
    ranks.next_step();
    for (times.emplace_back(); std::ssize(times.back()) < ranks.ranks();)
      times.back().push_back(ranks.seconds_of(static_cast<int>(times.back().size())));
  }
  return times;
}

TEST(Detector, NamesNoRankWronglyInAThousandNoisySteps) {
  for (const int ranks : {2, 3, 8, 64})
    for (unsigned seed = 0; seed < (ranks == 64 ? 20U : 150U); ++seed) {
      NoisyRanks noisy(ranks, seed);
      const auto times = recorded(noisy, 1000);
      Training training(ranks);
      for (std::int64_t first = 0; first < 1000; first += 20)
        training.deliver(first, 20, [&](int rank, std::int64_t step) {
          return times[static_cast<std::size_t>(step)][static_cast<std::size_t>(rank)];
        });
      ASSERT_TRUE(training.changes().empty())
          << ranks << " ranks, seed " << seed << ": " << training.changes().front().text;
    }
}

TEST(Detector, NamesARankAtHalfSpeedWithinTwentySteps) {
  for (const int ranks : {2, 3, 8, 64})
    for (unsigned seed = 0; seed < 100; ++seed) {
      NoisyRanks noisy(ranks, seed);
      const auto times = recorded(noisy, 320);
      const int slow = static_cast<int>(seed) % ranks;
      Training training(ranks);
      training.deliver(0, 320, [&](int rank, std::int64_t step) {
        const double usual = times[static_cast<std::size_t>(step)][static_cast<std::size_t>(rank)];
        return rank == slow && step >= 200 ? 2 * usual : usual;
      });
      ASSERT_FALSE(training.changes().empty()) << ranks << " ranks, seed " << seed;
      const Finding& first = training.changes().front();
      EXPECT_EQ(first.subject,
                (Subject{.kind = FindingKind::straggler, .node = slow / 4, .rank = slow}));
      // With two ranks, a pause of one hides that the other is slow.
      const std::int64_t most = ranks == 2 ? 25 : 20;
      EXPECT_LT(first.last_seen, kBegin + (200 + most) * milliseconds(500))
          << ranks << " ranks, seed " << seed;
      EXPECT_TRUE(first.of_hardware);
      EXPECT_FALSE(first.ended);
      for (const Finding& change : training.changes()) EXPECT_EQ(change.subject, first.subject);
    }
}

TEST(Detector, AStragglerEndsWhenItIsAsFastAsTheOthers) {
  Training training(8);
  training.deliver(0, 100, [](int rank, std::int64_t step) {
    return rank == 5 && step >= 20 && step < 50 ? 2.0 : 1.0;
  });
  ASSERT_GE(training.changes().size(), 2U);
  EXPECT_EQ(training.changes().front().since, kBegin + 20 * milliseconds(500));
  const auto& ended = training.changes().back().ended;
  ASSERT_TRUE(ended);
  EXPECT_GE(*ended, kBegin + 50 * milliseconds(500));
  EXPECT_LE(*ended, kBegin + 70 * milliseconds(500));
}

TEST(Detector, RanksThatDoNotLogAreNotWaitedForLong) {
  Training training(8);
  for (std::int64_t step = 0; step < 100; ++step)
    for (const int rank : {0, 4, 5})
      training.log(rank, step, {{"compute_seconds", rank == 5 ? 2.0 : 1.0}});
  ASSERT_FALSE(training.changes().empty());
  EXPECT_EQ(training.changes().front().subject,
            (Subject{.kind = FindingKind::straggler, .node = 1, .rank = 5}));
}

TEST(Detector, AnAgentThatIsAwayForAMinuteChangesNoJudgement) {
  Training training(8);
  for (std::int64_t step = 0; step < 120; ++step)
    for (int rank = 0; rank < 4; ++rank) training.log(rank, step, {{"compute_seconds", 1}});
  for (std::int64_t step = 0; step < 120; ++step)
    for (int rank = 4; rank < 8; ++rank)
      training.log(rank, step, {{"compute_seconds", rank == 5 ? 2.5 : 1}});
  ASSERT_FALSE(training.changes().empty());
  for (const Finding& change : training.changes())
    EXPECT_EQ(change.subject, (Subject{.kind = FindingKind::straggler, .node = 1, .rank = 5}));
}

TEST(Detector, ADaemonThatRestartsNeitherLosesNorRepeatsAFinding) {
  const auto half_speed = [](int rank, std::int64_t) { return rank == 1 ? 2.0 : 1.0; };
  Training before(4);
  before.deliver(0, 15, half_speed);
  ASSERT_EQ(before.changes().size(), 1U);
  Training after(4);
  after.detector().restore(before.changes().front());
  after.deliver(15, 100, half_speed);
  ASSERT_FALSE(after.changes().empty());
  for (const Finding& change : after.changes()) {
    EXPECT_EQ(change.since, before.changes().front().since) << "it is the same one";
    EXPECT_FALSE(change.ended);
  }
  after.deliver(115, 20, [](int, std::int64_t) { return 1.0; });
  EXPECT_TRUE(after.changes().back().ended);
}

TEST(Detector, ARankWhoseAgentIsAwayIsNotSilent) {
  Training training(8);
  training.deliver(0, 30, [](int, std::int64_t) { return 1.0; });
  for (std::int64_t step = 30; step < 300; ++step)
    for (int rank = 0; rank < 4; ++rank) training.log(rank, step, {{"loss", 1}});
  EXPECT_TRUE(training.changes().empty()) << "node 1 has delivered nothing";
  for (std::int64_t step = 30; step < 300; ++step)
    for (int rank = 4; rank < 8; ++rank) training.log(rank, step, {{"loss", 1}});
  EXPECT_TRUE(training.changes().empty()) << "its reports came late";
}

TEST(Detector, ARankThatStopsToLogIsSilentUntilItLogsAgain) {
  Training training(8);
  training.deliver(0, 30, [](int, std::int64_t) { return 1.0; });
  for (std::int64_t step = 30; step < 120; ++step)
    for (int rank = 0; rank < 8; ++rank)
      if (rank != 6) training.log(rank, step, {{"loss", 1}});
  ASSERT_FALSE(training.changes().empty());
  EXPECT_EQ(training.changes().front().subject,
            (Subject{.kind = FindingKind::silent_rank, .node = 1, .rank = 6}));
  EXPECT_EQ(training.changes().front().since, kBegin + 29 * milliseconds(500));
  training.log(6, 120, {{"loss", 1}});
  EXPECT_TRUE(training.changes().back().ended);
}

TEST(Detector, DataLoadingOverComputeIsAFindingOfTheAttempt) {
  Training training(2);
  for (std::int64_t step = 0; step < 30; ++step)
    for (int rank = 0; rank < 2; ++rank)
      training.log(rank, step,
                   {{"compute_seconds", 0.2}, {"data_seconds", step < 10 ? 0.05 : 0.3}});
  ASSERT_FALSE(training.changes().empty());
  EXPECT_EQ(training.changes().front().subject, Subject{.kind = FindingKind::data_loading});
  EXPECT_EQ(training.changes().front().since, kBegin + 10 * milliseconds(500));
  EXPECT_EQ(training.changes().front().text,
            "the ranks wait 0.3 s a step for data, and compute 0.2 s");
}

TEST(Detector, ARankWhoseDataComesLateIsAStragglerAndTheOthersAreNot) {
  Training training(8);
  for (std::int64_t step = 0; step < 40; ++step)
    for (int rank = 0; rank < 8; ++rank)
      training.log(rank, step,
                   {{"compute_seconds", 0.2}, {"data_seconds", rank == 5 ? 0.4 : 0.05}});
  ASSERT_FALSE(training.changes().empty());
  for (const Finding& change : training.changes())
    EXPECT_EQ(change.subject, (Subject{.kind = FindingKind::straggler, .node = 1, .rank = 5}));
}

// A node whose device has these readings, a sample a second.
class Device {
 public:
  std::vector<Finding> sample(Readings readings) { return sample_at(now_ += seconds(1), readings); }
  std::vector<Finding> sample_at(Time time, const Readings& readings) {
    Readings named;
    for (const auto& [name, value] : readings) named["device3/" + name] = value;
    detector.observe_telemetry(2, time, named);
    return detector.take_changes();
  }
  Time now() const { return now_; }
  void pass(Duration time) { now_ += time; }

  Detector detector;

 private:
  Time now_ = kBegin;
};

TEST(Detector, ThrottlingBeginsAfterFifteenSamplesAndEndsWhenItIsOver) {
  Device device;
  std::vector<Finding> changes;
  const auto take = [&](double reasons, int samples) {
    for (int i = 0; i < samples; ++i)
      for (Finding& each : device.sample({{"clocks_event_reasons", reasons}}))
        changes.push_back(std::move(each));
  };
  take(0x4, 100);  // the limit of power
  take(0x40, 14);
  EXPECT_TRUE(changes.empty());
  take(0x40, 1);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].subject, (Subject{.kind = FindingKind::throttling, .node = 2, .device = 3}));
  EXPECT_EQ(changes[0].since, kBegin + seconds(101));
  EXPECT_EQ(changes[0].text,
            "its clocks are lowered because of the hardware's limit of temperature");
  device.pass(std::chrono::hours(1));  // a gap
  take(0x40, 1);
  EXPECT_FALSE(changes.back().ended) << "a gap ends nothing";
  take(0, 30);
  ASSERT_TRUE(changes.back().ended);
  const std::size_t count = changes.size();
  take(0, 1000);
  EXPECT_EQ(changes.size(), count);
}

TEST(Detector, CountersAreJudgedOnceAcrossARestart) {
  Device device;
  EXPECT_TRUE(device.sample({{"ecc_uncorrected_total", 4}, {"xid_errors_total", 0}}).empty())
      << "errors of before the run";
  const auto found =
      device.sample({{"ecc_uncorrected_total", 5}, {"xid_errors_total", 1}, {"xid_last", 79}});
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].subject.kind, FindingKind::ecc_errors);
  EXPECT_EQ(found[1].text, "Xid error 79; 1 since the ranks began");
  EXPECT_TRUE(found[1].of_hardware);

  Device after;
  for (const Finding& finding : found) after.detector.restore(finding);
  for (const auto& [node, marks] : device.detector.take_changed_marks())
    for (const auto& [metric, value] : marks) after.detector.restore_mark(node, metric, value);
  after.pass(std::chrono::minutes(5));
  EXPECT_TRUE(
      after.sample({{"ecc_uncorrected_total", 5}, {"xid_errors_total", 1}, {"xid_last", 79}})
          .empty());
  const auto grown = after.sample({{"ecc_uncorrected_total", 6}, {"xid_errors_total", 1}});
  ASSERT_EQ(grown.size(), 1U) << "a growth while the daemon was away";
  EXPECT_EQ(grown[0].since, found[0].since);
}

TEST(Detector, AnXidErrorOfAProgramIsNotOfTheHardware) {
  Device device;
  const auto found = device.sample({{"xid_errors_total", 1}, {"xid_last", 31}});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_FALSE(found[0].of_hardware);
}

TEST(Detector, FewCorrectedErrorsAreNoFinding) {
  Device device;
  EXPECT_TRUE(device.sample({{"ecc_corrected_total", 100}}).empty());
  EXPECT_TRUE(device.sample({{"ecc_corrected_total", 109}}).empty());
  EXPECT_EQ(device.sample({{"ecc_corrected_total", 110}}).size(), 1U);
}

TEST(Detector, ALinkThatRepeatsPacketsIsSlow) {
  Device device;
  std::vector<Finding> found;
  for (int i = 0; i < 40 && found.empty(); ++i)
    found = device.sample({{"pcie_replays_total", 7.0 + 3 * i}});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].subject.kind, FindingKind::slow_link);

  Device host;
  found.clear();
  for (int i = 0; i < 40 && found.empty(); ++i) {
    host.detector.observe_telemetry(0, kBegin + seconds(i),
                                    {{"network/eth0/errors_per_second", 9}});
    found = host.detector.take_changes();
  }
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].subject.part, "eth0");
}

TEST(Detector, ALostDeviceIsAFindingUntilItReturns) {
  Device device;
  EXPECT_TRUE(device.sample({{"lost", 0}}).empty());
  ASSERT_EQ(device.sample({{"lost", 1}}).size(), 1U);
  const auto back = device.sample({{"lost", 0}});
  ASSERT_EQ(back.size(), 1U);
  EXPECT_TRUE(back[0].ended);
}

}  // namespace
}  // namespace lockstep::finding

// Curves over all ranks, compared with the values of all ranks, over restarts, seals and merges.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/random.h"
#include "base/temporary_folder_for_test.h"
#include "platform/insight/series/folder_series.h"
#include "platform/insight/series/store_for_test.h"

namespace lockstep::insight::series {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinite = std::numeric_limits<double>::infinity();

SeriesKey loss_of(int rank) { return {"train/loss", RunPart::rank, rank}; }

std::vector<double> values_in(const Curve& curve) {
  std::vector<double> values;
  for (const SeriesPoint& point : curve.points) values.push_back(point.value);
  return values;
}

class RankCurvesTest : public ::testing::Test {
 protected:
  // By attempt, step and rank.
  using Values = std::map<std::int64_t, std::map<std::int64_t, std::map<int, SeriesPoint>>>;

  void open(const SeriesLimits& limits = {}) {
    store_.reset();
    store_ = open_folder_series(folder_.path(), limits).value();
  }
  void log(int rank, const std::vector<SeriesPoint>& points, std::int64_t epoch = 1) {
    EXPECT_EQ(store_->append(batch_of(points, epoch, loss_of(rank))).value().rejected, 0U);
    for (const SeriesPoint& point : points) values_[epoch][point.step][rank] = point;
  }
  // Every append seals; returns when the open points are in segments.
  void seal_all() {
    open({.seal = 1_B});
    ASSERT_TRUE(store_->append(batch_of({point_at(1, 0)}, 1, {.metric = "sealing"})));
    const Deadline deadline = Deadline::after(std::chrono::seconds(60));
    const auto logs = [&] {
      return std::ranges::count_if(
          std::filesystem::directory_iterator(folder_.path()),
          [](const auto& entry) { return entry.path().filename().string().starts_with("log-"); });
    };
    while ((logs() != 1 || !store_->problems().empty()) && !deadline.passed())
      std::this_thread::yield();
    ASSERT_EQ(logs(), 1);
    open();
  }
  static void wait_until(const std::function<bool()>& done, const char* what) {
    const Deadline deadline = Deadline::after(std::chrono::seconds(60));
    while (!done() && !deadline.passed()) std::this_thread::yield();
    ASSERT_TRUE(done()) << what;
  }
  std::size_t series_count() { return store_->latest(kTestRun, {}, 1000).value().series.size(); }
  std::vector<double> values_of_rank(int rank) {
    return values_in(store_
                         ->curve({.run = kTestRun,
                                  .series = loss_of(rank),
                                  .epoch = {},
                                  .range = {},
                                  .pixels = 1000})
                         .value());
  }
  RankCurves curves(std::int64_t pixels = 100'000, std::optional<std::int64_t> epoch = {}) {
    return store_
        ->rank_curves({.run = kTestRun,
                       .series = {"train/loss"},
                       .epoch = epoch,
                       .range = {},
                       .pixels = pixels})
        .value();
  }
  // Every step has the statistics of the newest attempt that has it, of all its ranks.
  void expect_all_ranks() {
    std::map<std::int64_t, std::map<int, SeriesPoint>> newest;
    for (const auto& [epoch, steps] : values_)
      for (const auto& [step, ranks] : steps) newest[step] = ranks;
    const RankCurves found = curves();
    ASSERT_EQ(found.unreadable, 0);
    ASSERT_EQ(found.mean.points.size(), newest.size());
    ASSERT_EQ(found.min.points.size(), newest.size());
    ASSERT_EQ(found.max.points.size(), newest.size());
    std::size_t i = 0;
    for (const auto& [step, ranks] : newest) {
      double sum = 0, squares = 0;
      auto least = ranks.begin(), greatest = ranks.begin();
      for (auto each = ranks.begin(); each != ranks.end(); ++each) {
        sum += each->second.value;
        if (each->second.value < least->second.value) least = each;
        if (each->second.value > greatest->second.value) greatest = each;
      }
      const double mean = sum / static_cast<double>(ranks.size());
      for (const auto& [rank, point] : ranks) squares += std::pow(point.value - mean, 2);
      const double spread = std::sqrt(squares / static_cast<double>(ranks.size()));
      ASSERT_EQ(found.mean.points[i].step, step);
      ASSERT_NEAR(found.mean.points[i].value, mean, 1e-9) << "step " << step;
      ASSERT_NEAR(found.spread.points[i].value, spread, 1e-9) << "step " << step;
      ASSERT_EQ(found.min.points[i].value, least->second.value) << "step " << step;
      ASSERT_EQ(found.max.points[i].value, greatest->second.value) << "step " << step;
      ASSERT_EQ(found.min_ranks[i], least->first) << "step " << step;
      ASSERT_EQ(found.max_ranks[i], greatest->first) << "step " << step;
      ++i;
    }
  }

  TemporaryFolder folder_;
  std::unique_ptr<SeriesStore> store_;
  Values values_;
};

TEST_F(RankCurvesTest, EachStepHasItsMeanItsExtremesAndTheirRanks) {
  open();
  log(0, {point_at(1, 4), point_at(2, 1)});
  log(7, {point_at(1, 2), point_at(2, 1)});
  log(3, {point_at(1, 6), point_at(3, 9)});
  for (int restart = 0; restart < 2; ++restart) {
    const RankCurves found = curves();
    EXPECT_THAT(values_in(found.mean), ElementsAre(4, 1, 9));
    EXPECT_THAT(values_in(found.min), ElementsAre(2, 1, 9));
    EXPECT_THAT(values_in(found.max), ElementsAre(6, 1, 9));
    EXPECT_THAT(found.min_ranks, ElementsAre(7, 0, 3)) << "of equal values the lowest rank";
    EXPECT_THAT(found.max_ranks, ElementsAre(3, 0, 3));
    EXPECT_NEAR(found.spread.points[0].value, std::sqrt(8.0 / 3), 1e-12);
    EXPECT_EQ(found.spread.points[1].value, 0);
    seal_all();
  }
}

TEST_F(RankCurvesTest, PointsOfRanksBesideAFindingStay) {
  open();
  log(0, {point_at(1, 4), point_at(2, 1)});
  log(7, {point_at(1, 2), point_at(2, 1)});
  seal_all();
  log(0, {point_at(1000, 4), point_at(1001, 1)});
  log(7, {point_at(1000, 2), point_at(1001, 1)});
  seal_all();
  const Time finding = point_at(1001, 0).time;
  store_->expire({.ranks = point_at(2000, 0).time, .kept = {{kTestRun, {{finding, finding}}}}});
  wait_until([&] { return values_of_rank(7).size() == 2; }, "the others are not removed");
  EXPECT_THAT(values_of_rank(7), ElementsAre(2, 1));
  EXPECT_THAT(values_of_rank(0), SizeIs(4));
}

TEST_F(RankCurvesTest, StepsThatWereSealedBeforeASecondRankCameHaveStatistics) {
  open();
  for (std::int64_t step = 0; step < 100; ++step)
    log(5, {point_at(step, 1.0 + 0.5 * static_cast<double>(step))});
  seal_all();
  for (std::int64_t step = 90; step < 120; ++step) log(2, {point_at(step, 7)});
  const CurveQuery mean{.run = kTestRun,
                        .series = {"train/loss", RunPart::all_ranks, 0},
                        .epoch = {},
                        .range = {},
                        .pixels = 1000};
  for (int restart = 0; restart < 2; ++restart) {
    expect_all_ranks();
    EXPECT_EQ(values_in(store_->curve(mean).value()), values_in(curves().mean));
    EXPECT_THAT(store_->curve(mean).value().points, SizeIs(120));
    seal_all();
  }
}

TEST_F(RankCurvesTest, AMetricOfOneRankHasNone) {
  open();
  log(3, {point_at(1, 4), point_at(2, 1)});
  ASSERT_TRUE(store_->append(batch_of({point_at(1, 5)}, 1, {"train/loss", RunPart::node, 0})));
  for (int restart = 0; restart < 2; ++restart) {
    EXPECT_THAT(curves().mean.points, IsEmpty());
    EXPECT_THAT(store_->metrics(kTestRun).value(),
                ::testing::Contains(MetricRanks{"train/loss", 3, false}));
    seal_all();
  }
  log(1, {point_at(3, 4)});
  EXPECT_THAT(store_->metrics(kTestRun).value(),
              ::testing::Contains(MetricRanks{"train/loss", 1, true}));
}

TEST_F(RankCurvesTest, ANaNIsTheGreatestAndNamesItsRankAndInfinitiesStay) {
  open();
  log(0, {point_at(1, 4), point_at(2, kInfinite), point_at(3, kInfinite)});
  log(1, {point_at(1, kNotANumber), point_at(2, 3), point_at(3, -kInfinite)});
  log(2, {point_at(1, kInfinite), point_at(2, 4), point_at(3, 0)});
  for (int restart = 0; restart < 2; ++restart) {
    const RankCurves found = curves();
    EXPECT_TRUE(std::isnan(found.mean.points[0].value));
    EXPECT_TRUE(std::isnan(found.max.points[0].value));
    EXPECT_EQ(found.max_ranks[0], 1);
    EXPECT_EQ(found.min.points[0].value, 4);
    EXPECT_EQ(found.min_ranks[0], 0);
    EXPECT_EQ(found.mean.points[1].value, kInfinite);
    EXPECT_TRUE(std::isnan(found.mean.points[2].value)) << "both infinities";
    EXPECT_EQ(found.min.points[2].value, -kInfinite);
    seal_all();
  }
}

TEST_F(RankCurvesTest, LateAndRepeatedStepsCountWithThoseThatAreSealed) {
  open();
  for (int rank = 0; rank < 4; ++rank) log(rank, {point_at(1, rank), point_at(2, rank)});
  seal_all();
  log(4, {point_at(1, 10)});  // late
  expect_all_ranks();
  log(2, {point_at(2, -5)});  // logged again in the same attempt
  expect_all_ranks();
  seal_all();
  expect_all_ranks();
  log(0, {point_at(1, 100), point_at(3, 1)});
  seal_all();
  expect_all_ranks();
}

TEST_F(RankCurvesTest, TheNewestAttemptCountsAndOlderOnesStayVisible) {
  open();
  for (int rank = 0; rank < 2; ++rank) log(rank, {point_at(1, 1 + rank), point_at(2, 8)}, 1);
  seal_all();
  for (int rank = 0; rank < 2; ++rank) log(rank, {point_at(2, 3 + rank)}, 2);
  for (int restart = 0; restart < 2; ++restart) {
    expect_all_ranks();
    EXPECT_THAT(values_in(curves(1000, 1).mean), ElementsAre(1.5, 8));
    EXPECT_THAT(values_in(curves(1000, 2).mean), ElementsAre(3.5));
    EXPECT_THAT(curves(1000, 3).mean.points, IsEmpty());
    seal_all();
  }
}

TEST_F(RankCurvesTest, AnySequenceOfCallsSealsRestartsAndMergesGivesTheSame) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    open({.seal = 4_KiB});
    ASSERT_TRUE(store_->remove(kTestRun));
    values_.clear();
    Random random(seed);
    std::int64_t epoch = 1;
    for (int call = 0; call < 400; ++call) {
      if (random.uniform() < 0.01) ++epoch;
      if (random.uniform() < 0.02) open({.seal = 4_KiB});
      std::vector<SeriesPoint> points;
      const auto first = static_cast<std::int64_t>(call * random.uniform());
      for (std::int64_t step = first; step < first + 20; ++step)
        points.push_back(point_at(step, std::floor(100 * random.uniform())));
      if (random.uniform() < 0.2) std::ranges::reverse(points);
      log(static_cast<int>(5 * random.uniform()), points, epoch);
    }
    ASSERT_NO_FATAL_FAILURE(expect_all_ranks()) << "seed " << seed;
    seal_all();
    ASSERT_NO_FATAL_FAILURE(expect_all_ranks()) << "seed " << seed << ", sealed";
  }
}

TEST_F(RankCurvesTest, FewPixelsKeepTheOutlierOfOneRank) {
  open();
  for (int rank = 0; rank < 8; ++rank) {
    std::vector<SeriesPoint> points;
    for (int step = 0; step < 5000; ++step)
      points.push_back(point_at(step, rank == 5 && step == 3210 ? 1000 : 1 + rank * 0.01));
    log(rank, points);
  }
  for (int restart = 0; restart < 2; ++restart) {
    const RankCurves found = curves(50);
    EXPECT_LE(found.max.points.size(), 250U);
    ASSERT_EQ(found.max_ranks.size(), found.max.points.size());
    const auto greatest = std::ranges::max_element(found.max.points, {}, &SeriesPoint::value);
    EXPECT_EQ(greatest->step, 3210);
    EXPECT_EQ(greatest->value, 1000);
    EXPECT_EQ(found.max_ranks[static_cast<std::size_t>(greatest - found.max.points.begin())], 5);
    EXPECT_TRUE(std::ranges::all_of(found.min_ranks, [](double rank) { return rank == 0; }));
    EXPECT_EQ(found.mean.total, 5000);
    seal_all();
  }
}

// --- Points of ranks that are removed ---

TEST_F(RankCurvesTest, OldPointsOfRanksGoAndTheStatisticsAndTheLowestRankStay) {
  open();
  for (int rank = 2; rank < 6; ++rank) log(rank, {point_at(1, rank), point_at(2, rank)});
  ASSERT_TRUE(store_->append(batch_of({point_at(1, 7)}, 1, {"alone", RunPart::rank, 5})));
  ASSERT_TRUE(store_->append(batch_of({point_at(1, 7)}, 1, {"watts", RunPart::node, 0})));
  seal_all();
  const Bytes before = store_->bytes(kTestRun);
  store_->expire({.ranks = point_at(2, 0).time});
  wait_until([&] { return series_count() == 4 + 3; }, "points that are not older stay");
  store_->expire({.ranks = point_at(3, 0).time});
  wait_until([&] { return series_count() == 1 + 3; }, "those of older ranks go");
  EXPECT_LT(store_->bytes(kTestRun), before);
  for (int restart = 0; restart < 2; ++restart) {
    expect_all_ranks();
    EXPECT_THAT(values_of_rank(2), ElementsAre(2, 2));
    EXPECT_THAT(values_of_rank(5), IsEmpty());
    EXPECT_THAT(store_->metrics(kTestRun).value(),
                ::testing::Contains(MetricRanks{"train/loss", 2, true}));
    EXPECT_THAT(store_->problems(), IsEmpty());
    open();
  }
}

TEST_F(RankCurvesTest, AValueAfterTheRemovalDoesNotReplaceTheStatisticsOfAllRanks) {
  open();
  for (int rank = 0; rank < 4; ++rank) log(rank, {point_at(1, rank), point_at(2, rank)});
  seal_all();
  store_->expire({.ranks = point_at(3, 0).time});
  wait_until([&] { return series_count() == 2; }, "the sealing run's series and rank 0");
  ASSERT_TRUE(store_->append(batch_of({point_at(1, 50)}, 1, loss_of(9))));
  for (int restart = 0; restart < 2; ++restart) {
    expect_all_ranks();
    seal_all();
  }
}

TEST_F(RankCurvesTest, RemovalGoesOnAfterAKillAndMergesGoOnAfterRemoval) {
  open({.seal = 1_B});
  for (int step = 0; step < 30; ++step)
    for (int rank = 0; rank < 3; ++rank) log(rank, {point_at(step, rank + step)});
  store_->expire({.ranks = point_at(20, 0).time});
  open({.seal = 1_B});
  store_->expire({.ranks = point_at(1000, 0).time});
  seal_all();
  store_->expire({.ranks = point_at(1000, 0).time});
  wait_until([&] { return values_of_rank(1).empty() && values_of_rank(2).empty(); }, "all go");
  expect_all_ranks();
  EXPECT_THAT(values_of_rank(0), SizeIs(30));
}

TEST_F(RankCurvesTest, RemovalKeepsTheValuesOfAnAttemptThatOneRankAloneLogged) {
  open({.seal = 1_B});
  for (int step = 0; step < 3; ++step) {
    log(7, {point_at(step, 70 + step)}, 1);
    seal_all();
    open({.seal = 1_B});
  }
  for (int step = 10; step < 40; ++step)
    for (int rank = 3; rank < 5; ++rank) log(rank, {point_at(step, rank)}, 2);
  seal_all();
  store_->expire({.ranks = point_at(1000, 0).time});
  wait_until([&] { return values_of_rank(4).empty(); }, "rank 4 goes");
  // As points of rank 7, or only as statistics if a merge has put these beside attempt 2.
  EXPECT_THAT(values_in(curves(100'000, 1).mean), ElementsAre(70, 71, 72));
  expect_all_ranks();
  EXPECT_THAT(values_of_rank(3), SizeIs(30));
}

TEST_F(RankCurvesTest, PointsOfAllRanksAreNotTakenAndCountNoSeries) {
  open({.series = 2});
  const Appended refused =
      store_->append(batch_of({point_at(1, 1)}, 1, {"train/loss", RunPart::all_ranks, 0})).value();
  EXPECT_EQ(refused.rejected, 1U);
  ASSERT_THAT(refused.reasons, SizeIs(1));
  EXPECT_THAT(refused.reasons[0].reason, HasSubstr("the store makes"));
  for (int rank = 0; rank < 2; ++rank) log(rank, {point_at(1, 1)});
  open({.series = 2, .seal = 1_B});
  for (int rank = 0; rank < 2; ++rank) log(rank, {point_at(2, 1)});
  open({.series = 3});
  log(2, {point_at(3, 1)});
  EXPECT_THAT(store_->latest(kTestRun, {}, 100).value().series, SizeIs(3));
  expect_all_ranks();
}

}  // namespace
}  // namespace lockstep::insight::series

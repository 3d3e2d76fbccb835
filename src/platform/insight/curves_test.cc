// Curves of a run over steps, time and another metric, compared with all of its points.
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "base/temporary_folder_for_test.h"
#include "platform/insight/ids_for_test.h"
#include "platform/insight/insight.h"
#include "platform/insight/series/folder_series.h"

namespace lockstep::insight {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class CurvesTest : public ::testing::Test {
 protected:
  struct Row {
    std::int64_t step = 0;
    std::map<std::string, double> values{};
    Time time{};
  };
  void log(const std::vector<Row>& rows, int rank = 0) {
    std::vector<spool::TelemetryItem> items;
    for (const Row& row : rows)
      items.push_back({.sequence = ++sequence_,
                       .kind = spool::TelemetryKind::metrics,
                       .rank = rank,
                       .step = row.step,
                       .time = row.time,
                       .values = row.values});
    ASSERT_TRUE(insight_.ingest(kNode, items));
  }
  api::RunCurve ask(const RunCurveQuery& query) { return insight_.curve(kRun, query).value(); }

  std::unique_ptr<store::Database> database_ = store::Database::in_memory().value();
  TemporaryFolder folder_;
  std::unique_ptr<SeriesStore> series_ = open_folder_series(folder_ / "series").value();
  Insight insight_{*database_, *series_};
  std::int64_t sequence_ = 0;
};

TEST_F(CurvesTest, AMetricThatTheRunDoesNotHaveIsAnEmptyCurve) {
  EXPECT_EQ(ask({.metric = "loss"}).total, 0);
  log({{1, {{"loss", 2}}}});
  EXPECT_EQ(ask({.metric = "accuracy"}).total, 0);
  EXPECT_THAT(ask({.metric = "loss", .x_metric = "tokens"}).x, IsEmpty());
  EXPECT_THAT(ask({.metric = "loss", .rank = 5}).x, IsEmpty());
}

TEST_F(CurvesTest, XIsTheStepTheTimeTheTimeSinceTheFirstPointOrAnotherMetric) {
  const auto at = [](int second) { return Time(std::chrono::seconds(second)); };
  log({{10, {{"loss", 4}, {"tokens", 1000}}, at(100)},
       {20, {{"loss", 3}}, at(110)},
       {30, {{"loss", 2}, {"tokens", 5000}}, at(150)}});
  EXPECT_THAT(ask({.metric = "loss"}).x, ElementsAre(10, 20, 30));
  EXPECT_THAT(ask({.metric = "loss", .x = api::CurveAxis::time}).x, ElementsAre(100, 110, 150));
  EXPECT_THAT(ask({.metric = "loss", .x = api::CurveAxis::relative}).x, ElementsAre(0, 10, 50));
  const api::RunCurve curve = ask({.metric = "loss", .x_metric = "tokens"});
  EXPECT_THAT(curve.x, ElementsAre(1000, 1000, 5000)) << "step 20 has the tokens of step 10";
  EXPECT_THAT(curve.values, ElementsAre(4, 3, 2));
  EXPECT_THAT(curve.steps, ElementsAre(10, 20, 30));
}

TEST_F(CurvesTest, PointsBeforeTheFirstValueOfXHaveNoPlace) {
  log({{1, {{"loss", 9}}}, {2, {{"loss", 8}, {"tokens", 7}}}, {3, {{"loss", 6}}}});
  EXPECT_THAT(ask({.metric = "loss", .x_metric = "tokens"}).values, ElementsAre(8, 6));
}

TEST_F(CurvesTest, ABandHasTheExtremesOverTheRanksAndTheCurveTheirMean) {
  log({{1, {{"loss", 1}}}, {2, {{"loss", 2}}}}, 0);
  log({{1, {{"loss", 5}}}, {2, {{"loss", 0}}}}, 3);
  const api::RunCurve curve = ask({.metric = "loss", .band = true});
  EXPECT_TRUE(curve.aggregate);
  EXPECT_THAT(curve.values, ElementsAre(3, 1));
  EXPECT_THAT(curve.low.values, ElementsAre(1, 0));
  EXPECT_THAT(curve.high.values, ElementsAre(5, 2));
  EXPECT_THAT(ask({.metric = "loss"}).low.values, IsEmpty());
  EXPECT_THAT(ask({.metric = "loss", .rank = 3}).values, ElementsAre(5, 0));
}

// The least and the greatest value of each pixel of the curve are those of all points whose x is
// within a pixel of it.
void expect_extremes(const std::map<double, std::pair<double, double>>& all,
                     const api::RunCurve& curve, std::int64_t pixels) {
  const double first = all.begin()->first;
  const double width = (all.rbegin()->first - first) / static_cast<double>(pixels);
  for (std::size_t i = 1; i < curve.x.size(); ++i) ASSERT_LE(curve.x[i - 1], curve.x[i]);
  for (const auto& [x, extremes] : all) {
    double least = INFINITY, greatest = -INFINITY;
    for (std::size_t i = 0; i < curve.x.size(); ++i)
      if (std::abs(curve.x[i] - x) <= 1.5 * width) {
        least = std::min(least, curve.values[i]);
        greatest = std::max(greatest, curve.values[i]);
      }
    ASSERT_LE(least, extremes.first) << "x " << x;
    ASSERT_GE(greatest, extremes.second) << "x " << x;
  }
}

TEST_F(CurvesTest, NoSpikeIsLostOverTokensThatGrowUnevenlyOrGoBack) {
  for (const bool goes_back : {false, true}) {
    Random random(goes_back ? 7 : 8);
    const std::string loss = goes_back ? "b/loss" : "loss", tokens = goes_back ? "b/x" : "x";
    std::map<double, std::pair<double, double>> all;
    std::vector<Row> rows;
    double x = 0;
    for (std::int64_t step = 0; step < 6000; ++step) {
      const double value = random.below(200) == 0 ? 1000 + static_cast<double>(random.below(1000))
                                                  : static_cast<double>(random.below(100));
      x = goes_back ? static_cast<double>(random.below(100'000))
                    : x + static_cast<double>(random.below(step < 3000 ? 10 : 1000));
      rows.push_back({step, {{loss, value}, {tokens, x}}});
      const auto [known, is_new] = all.try_emplace(x, value, value);
      known->second = {std::min(known->second.first, value), std::max(known->second.second, value)};
    }
    log(rows);
    const api::RunCurve curve = ask({.metric = loss, .x_metric = tokens, .pixels = 100});
    EXPECT_TRUE(curve.downsampled);
    EXPECT_EQ(curve.total, 6000);
    EXPECT_LE(curve.x.size(), 510U);
    expect_extremes(all, curve, 100);
  }
}

TEST_F(CurvesTest, AZoomShowsMoreOfThePointsWithinItsBounds) {
  std::vector<Row> rows;
  for (std::int64_t step = 0; step < 5000; ++step) {
    const auto value = static_cast<double>(step);
    rows.push_back({step, {{"loss", value}, {"tokens", 100 * value}}});
  }
  log(rows);
  const RunCurveQuery query{
      .metric = "loss", .x_metric = "tokens", .pixels = 50, .from = 100'000, .to = 102'000};
  const api::RunCurve curve = ask(query);
  EXPECT_EQ(curve.x.front(), 100'000);
  EXPECT_EQ(curve.x.back(), 102'000);
  EXPECT_EQ(curve.x.size(), 21U) << "each point between the bounds";
  RunCurveQuery of_steps{.metric = "loss", .pixels = 50, .from = 10.5, .to = 12};
  EXPECT_THAT(ask(of_steps).x, ElementsAre(11, 12));
  of_steps.to = 3;
  EXPECT_THAT(ask(of_steps).x, IsEmpty());
}

TEST_F(CurvesTest, ValuesOfXThatAreNoNumbersHaveNoPlace) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinite = std::numeric_limits<double>::infinity();
  log({{1, {{"loss", nan}, {"tokens", 1}}},
       {2, {{"loss", 2}, {"tokens", nan}}},
       {3, {{"loss", 3}, {"tokens", infinite}}},
       {4, {{"loss", 4}, {"tokens", 2}}}});
  const api::RunCurve curve = ask({.metric = "loss", .x_metric = "tokens"});
  EXPECT_THAT(curve.x, ElementsAre(1, 2));
  EXPECT_TRUE(std::isnan(curve.values[0]));
}

}  // namespace
}  // namespace lockstep::insight

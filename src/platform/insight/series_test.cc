// The series of a run: answers with many points, and rejected values.
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.h"
#include "base/random.h"
#include "platform/insight/ids_for_test.h"
#include "platform/insight/insight.h"

namespace lockstep::insight {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class SeriesTest : public ::testing::Test {
 protected:
  // Stores points at these steps in one call, and records the expected state.
  void log(const std::vector<std::pair<std::int64_t, double>>& points, std::int64_t epoch = 1) {
    std::vector<spool::TelemetryItem> items;
    for (const auto& [step, value] : points) {
      items.push_back({.sequence = ++sequence_[epoch],
                       .kind = spool::TelemetryKind::metrics,
                       .step = step,
                       .time = Time(Duration(step)),
                       .values = {{name_, value}}});
      truth_[step] = value;
    }
    ASSERT_TRUE(insight_.ingest({{kRun, epoch}, 0}, items));
  }
  api::Series ask(std::int64_t points, std::optional<std::int64_t> after = std::nullopt) {
    auto page =
        insight_.series(kRun, {.name = name_, .rank = 0, .after_step = after, .points = points})
            .value();
    return page.series.empty() ? api::Series{} : std::move(page.series[0]);
  }
  // Checks that an answer gives the total, keeps the extremes and invents no points.
  void expect_true(std::int64_t points, std::optional<std::int64_t> after = std::nullopt) {
    const api::Series series = ask(points, after);
    const auto begin = after ? truth_.upper_bound(*after) : truth_.begin();
    ASSERT_EQ(series.total, std::distance(begin, truth_.end()));
    ASSERT_LE(static_cast<std::int64_t>(series.points.size()), points);
    if (series.total == 0) return;
    double least = begin->second, greatest = begin->second;
    for (auto point = begin; point != truth_.end(); ++point) {
      least = std::min(least, point->second);
      greatest = std::max(greatest, point->second);
    }
    const auto [low, high] = std::ranges::minmax(series.points, {}, &api::Point::value);
    ASSERT_EQ(low.value, least);
    ASSERT_EQ(high.value, greatest);
    ASSERT_EQ(series.points.front().step, begin->first);
    ASSERT_EQ(series.points.back().step, truth_.rbegin()->first);
    for (const api::Point& point : series.points) {
      ASSERT_EQ(point.value, truth_.at(point.step));
      ASSERT_EQ(point.time, Time(Duration(point.step)));
    }
  }

  std::unique_ptr<store::Database> database_ = store::Database::in_memory().value();
  Insight insight_{*database_};
  std::string name_ = "loss";
  std::map<std::int64_t, std::int64_t> sequence_;  // by epoch
  std::map<std::int64_t, double> truth_;
};

TEST_F(SeriesTest, FewPointsComeWholeAndManyAreMarked) {
  for (int step = 0; step < 1000; ++step) log({{step, step % 10}});
  EXPECT_FALSE(ask(1000).downsampled);
  EXPECT_THAT(ask(1000).points, SizeIs(1000));
  const api::Series few = ask(100);
  EXPECT_TRUE(few.downsampled);
  EXPECT_EQ(few.total, 1000);
  EXPECT_GT(few.points.size(), 40u);
  EXPECT_LE(few.points.size(), 100u);
}

TEST_F(SeriesTest, AnswersAreTrueWhateverTheStepsAndHoweverFewPointsAreAskedFor) {
  Random random(11);
  const auto some = [&](std::uint64_t most) {
    return static_cast<std::int64_t>(random.below(most));
  };
  for (const std::int64_t spacing : {1, 7, 1000}) {
    truth_.clear();
    name_ = format("every-{}", spacing);
    for (std::int64_t step = 0, i = 0; i < 3000;) {
      std::vector<std::pair<std::int64_t, double>> points;
      for (std::int64_t end = std::min<std::int64_t>(3000, i + 1 + some(200)); i < end; ++i)
        points.emplace_back(step += 1 + some(static_cast<std::uint64_t>(2 * spacing)),
                            some(100'000));
      log(points);
    }
    for (const std::int64_t points : {5, 20, 64, 300, 2500, 10'000}) {
      expect_true(points);
      for (int ask = 0; ask < 20; ++ask)
        expect_true(points, some(static_cast<std::uint64_t>(truth_.rbegin()->first + 2)) - 1);
    }
  }
}

TEST_F(SeriesTest, ALaterAttemptsValuesReplaceThoseInTheSummaries) {
  std::vector<std::pair<std::int64_t, double>> points;
  for (int step = 0; step < 5000; ++step) points.emplace_back(step, step == 100 ? 1e9 : step);
  log(points);
  log({{100, 3.0}, {2000, -50.0}}, 2);
  expect_true(10);
  expect_true(100);
  for (int step = 101; step < 400; ++step) log({{step, step * 7.0}}, 2);
  expect_true(10);
  expect_true(100, 99);
}

TEST_F(SeriesTest, ANaNAmongThousandsIsStillSeen) {
  std::vector<std::pair<std::int64_t, double>> points;
  for (int step = 0; step < 20'000; ++step) points.emplace_back(step, 1.0);
  points[12'345].second = std::numeric_limits<double>::quiet_NaN();
  log(points);
  const api::Series series = ask(50);
  EXPECT_EQ(series.total, 20'000);
  EXPECT_EQ(
      std::ranges::count_if(series.points, [](const api::Point& p) { return std::isnan(p.value); }),
      1);
}

TEST_F(SeriesTest, WhatOneCallLeftUnsummarizedIsDoneInSlices) {
  std::vector<std::pair<std::int64_t, double>> points;
  for (int step = 0; step < 9000; ++step) points.emplace_back(step, step);
  log(points);
  expect_true(50);
  int slices = 0;
  while (insight_.summarize_pending().value()) ASSERT_LT(++slices, 20);
  EXPECT_GT(slices, 3);
  expect_true(50);
  EXPECT_GT(
      std::get<0>(database_->rows<std::int64_t>("select count(*) from summaries where level = 1")
                      .value()[0]),
      500);
}

TEST_F(SeriesTest, TheAllowanceIsSharedByTheSeriesOfTheAnswer) {
  std::vector<spool::TelemetryItem> items;
  for (int step = 0; step < 500; ++step) {
    items.push_back({.sequence = step + 1, .kind = spool::TelemetryKind::metrics, .step = step});
    for (int name = 0; name < 20; ++name) items.back().values[format("m{:02}", name)] = step;
  }
  ASSERT_TRUE(insight_.ingest({{kRun, 1}, 0}, items));
  const auto page =
      insight_.series(kRun, {.name = {}, .rank = {}, .after_step = {}, .points = 1000}).value();
  ASSERT_THAT(page.series, SizeIs(20));
  for (const api::Series& series : page.series) {
    EXPECT_LE(series.points.size(), 50u);
    EXPECT_EQ(series.total, 500);
  }
  const auto narrow =
      insight_.series(kRun, {.name = {}, .rank = {}, .after_step = {}, .points = 8}).value();
  EXPECT_THAT(narrow.series, SizeIs(8));
  EXPECT_EQ(narrow.left_out, 12);
}

TEST_F(SeriesTest, StepsAtTheEndsOfTheNumbersAreNoSpecialCase) {
  const auto most = std::numeric_limits<std::int64_t>::max();
  std::vector<std::pair<std::int64_t, double>> points = {{most, 1.0}, {-5, 2.0}, {most - 1, 3.0}};
  for (int step = -100; step < 100; ++step) points.emplace_back(step, step);
  log(points);
  expect_true(20);
  expect_true(20, most - 1);
  EXPECT_EQ(ask(20, most).total, 0);
}

// --- Rejected values ---

class RefusalTest : public SeriesTest {
 protected:
  void log(Insight& insight, std::map<std::string, double> values) {
    const std::vector<spool::TelemetryItem> items = {{.sequence = ++last_,
                                                      .kind = spool::TelemetryKind::metrics,
                                                      .rank = 3,
                                                      .step = last_,
                                                      .values = std::move(values)}};
    ASSERT_EQ(insight.ingest({{kRun, 1}, 0}, items).value(), last_);
  }
  std::size_t series() { return insight_.series(kRun).value().series.size(); }
  std::vector<api::LogLine> lines() { return insight_.log(kRun, {.rank = {}}).value().lines; }

  std::int64_t last_ = 0;
};

TEST_F(RefusalTest, ARunMayHaveOnlySoManySeriesAndItsLogSaysSo) {
  Insight strict(*database_, {.series = 5});
  for (int i = 0; i < 300; ++i) log(strict, {{format("m{}", i), 1.0}, {"m0", 2.0}});
  EXPECT_EQ(series(), 5u);
  EXPECT_EQ(insight_.summary(kRun).value().latest.at("m0"), 2.0);
  const auto said = lines();
  ASSERT_THAT(said, SizeIs(3));  // at the 1st, 10th and 100th
  EXPECT_THAT(said[0].text, HasSubstr("a run may have 5 series"));
  EXPECT_THAT(said[0].text, HasSubstr("\"m5\" at step 6"));
  EXPECT_EQ(said[0].rank, 3);
  EXPECT_THAT(said[2].text, HasSubstr("100 values of metrics were not stored"));
}

TEST_F(RefusalTest, ABadNameIsRefusedAloneAndNamed) {
  log(insight_, {{"", 1.0}, {std::string(300, 'x'), 1.0}, {"a\nb", 1.0}, {"good", 1.0}});
  EXPECT_EQ(series(), 1u);
  ASSERT_THAT(lines(), SizeIs(1));
  EXPECT_THAT(lines()[0].text, HasSubstr("1 to 256 bytes"));
}

TEST_F(RefusalTest, OneCallMayLogOnlySoManyMetrics) {
  Insight strict(*database_, {.values = 3});
  log(strict, {{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}});
  EXPECT_EQ(series(), 3u);
  EXPECT_THAT(lines()[0].text, HasSubstr("one call may log 3 metrics"));
}

}  // namespace
}  // namespace lockstep::insight

// The series of a run: answers with many points, and rejected values.
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.h"
#include "base/random.h"
#include "base/temporary_folder_for_test.h"
#include "platform/insight/ids_for_test.h"
#include "platform/insight/insight.h"
#include "platform/insight/series/folder_series.h"

namespace lockstep::insight {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
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
    ASSERT_TRUE(insight_.ingest(node_of(epoch), items));
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
  TemporaryFolder folder_;
  std::unique_ptr<SeriesStore> series_ = open_folder_series(folder_ / "series").value();
  Insight insight_{*database_, *series_};
  std::string name_ = "loss";
  std::map<std::int64_t, std::int64_t> sequence_;  // by epoch
  std::map<std::int64_t, double> truth_;
};

spool::TelemetryItem reading(std::int64_t sequence, std::int64_t second, double watts) {
  return {.sequence = sequence,
          .kind = spool::TelemetryKind::telemetry,
          .rank = 0,
          .step = second,
          .time = Time(std::chrono::seconds(second)),
          .values = {{"device0/power_watts", watts}}};
}

TEST_F(SeriesTest, TheTelemetryOfANodeIsApartFromTheMetricsOfItsRanks) {
  model::NodeName second = kNode;
  second.id.index = 1;
  const std::vector<spool::TelemetryItem> first_node = {reading(1, 1'790'000'000, 200),
                                                        reading(2, 1'790'000'001, 300)};
  const std::vector<spool::TelemetryItem> second_node = {reading(1, 1'790'000'000, 400)};
  ASSERT_TRUE(insight_.ingest(kNode, first_node));
  ASSERT_TRUE(insight_.ingest(kNode, first_node)) << "sent again, stored once";
  ASSERT_TRUE(insight_.ingest(second, second_node));
  log({{1, 2.5}}, 2);
  const auto of_ranks = insight_.series(kRun).value().series;
  ASSERT_THAT(of_ranks, SizeIs(1));
  EXPECT_EQ(of_ranks[0].name, "loss");
  EXPECT_EQ(of_ranks[0].node, std::nullopt);
  const auto of_node = insight_.series(kRun, {.node = 0}).value().series;
  ASSERT_THAT(of_node, SizeIs(1));
  EXPECT_EQ(of_node[0].name, "device0/power_watts");
  EXPECT_EQ(of_node[0].node, 0);
  ASSERT_THAT(of_node[0].points, SizeIs(2));
  EXPECT_EQ(of_node[0].points[1].value, 300);
  const auto named = insight_.series(kRun, {.name = "device0/power_watts", .node = 1}).value();
  ASSERT_THAT(named.series, SizeIs(1));
  EXPECT_EQ(named.series[0].points[0].value, 400);
  EXPECT_THAT(insight_.series(kRun, {.name = "loss", .node = 0}).value().series, IsEmpty());
}

TEST_F(SeriesTest, TelemetryIsNoProgressOfTheRunAndNoLatestMetric) {
  const std::vector<spool::TelemetryItem> items = {reading(1, 1'790'000'000, 200)};
  ASSERT_TRUE(insight_.ingest(kNode, items));
  const RunSummary summary = insight_.summary(kRun).value();
  EXPECT_FALSE(summary.progress);
  EXPECT_THAT(summary.latest, IsEmpty());
}

TEST_F(SeriesTest, PixelsKeepEachSpikeAndAnAttemptKeepsWhatALaterOneRepeats) {
  for (int step = 0; step < 1000; ++step) log({{step, step == 777 ? 1e6 : step % 10}});
  log({{777, 5}}, 2);
  const auto page = insight_.series(kRun, {.name = "loss", .pixels = 10}).value();
  ASSERT_THAT(page.series, SizeIs(1));
  EXPECT_EQ(page.series[0].total, 1000);
  EXPECT_TRUE(page.series[0].downsampled);
  EXPECT_LE(page.series[0].points.size(), 50U);
  EXPECT_EQ(std::ranges::max(page.series[0].points, {}, &api::Point::value).value, 9);
  const auto first = insight_.series(kRun, {.name = "loss", .pixels = 10, .epoch = 1}).value();
  ASSERT_THAT(first.series, SizeIs(1));
  EXPECT_EQ(std::ranges::max(first.series[0].points, {}, &api::Point::value).step, 777);
  const auto second = insight_.series(kRun, {.epoch = 2}).value();
  ASSERT_THAT(second.series, SizeIs(1));
  ASSERT_THAT(second.series[0].points, SizeIs(1));
  EXPECT_EQ(second.series[0].points[0].value, 5);
  EXPECT_THAT(insight_.series(kRun, {.epoch = 3}).value().series, IsEmpty());
}

TEST_F(SeriesTest, AMetricOfSeveralRanksHasStatisticsAndOneOfARankItsSeries) {
  std::vector<spool::TelemetryItem> items;
  for (int rank = 0; rank < 3; ++rank)
    for (int step = 1; step <= 2; ++step)
      items.push_back({.sequence = std::ssize(items) + 1,
                       .kind = spool::TelemetryKind::metrics,
                       .rank = rank,
                       .step = step,
                       .time = Time(Duration(step)),
                       .values = {{"loss", rank == 1 ? 9.0 * step : step}}});
  items.push_back({.sequence = std::ssize(items) + 1,
                   .kind = spool::TelemetryKind::metrics,
                   .rank = 2,
                   .step = 1,
                   .time = Time(Duration(1)),
                   .values = {{"accuracy", 0.5}}});
  ASSERT_TRUE(insight_.ingest(kNode, items));
  const auto page = insight_.series(kRun, {.aggregate = true}).value();
  ASSERT_THAT(page.series, SizeIs(5));
  EXPECT_EQ(page.left_out, 0);
  EXPECT_EQ(page.series[0].name, "accuracy");
  EXPECT_EQ(page.series[0].rank, 2);
  EXPECT_EQ(page.series[0].statistic, std::nullopt);
  using enum api::SeriesStatistic;
  const auto find = [&](api::SeriesStatistic statistic) {
    return *std::ranges::find(page.series, std::optional(statistic), &api::Series::statistic);
  };
  EXPECT_DOUBLE_EQ(find(mean).points[1].value, 22.0 / 3);
  EXPECT_EQ(find(min).points[1].value, 2);
  EXPECT_THAT(find(min).point_ranks, ElementsAre(0, 0));
  EXPECT_EQ(find(max).points[1].value, 18);
  EXPECT_THAT(find(max).point_ranks, ElementsAre(1, 1));
  EXPECT_NEAR(find(spread).points[0].value, std::sqrt(128.0 / 9), 1e-12);
  EXPECT_THAT(insight_.series(kRun, {.name = "accuracy", .aggregate = true}).value().series,
              SizeIs(1));
  EXPECT_THAT(insight_.series(kRun, {.rank = 1, .aggregate = true}).value().series, SizeIs(1));
  EXPECT_THAT(insight_.series(kRun).value().series, SizeIs(4)) << "of each rank";
  const auto later = insight_.series(kRun, {.after_step = 1, .aggregate = true}).value();
  ASSERT_THAT(later.series, SizeIs(4)) << "nothing of accuracy";
  EXPECT_THAT(later.series[0].points, SizeIs(1));
  const auto few = insight_.series(kRun, {.points = 5, .aggregate = true}).value();
  for (const api::Series& series : few.series) EXPECT_LE(series.points.size(), 5U);
  EXPECT_EQ(insight_.series(kRun, {.points = 2, .aggregate = true}).value().left_out, 4);
}

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

TEST_F(SeriesTest, TheAllowanceIsSharedByTheSeriesOfTheAnswer) {
  std::vector<spool::TelemetryItem> items;
  for (int step = 0; step < 500; ++step) {
    items.push_back({.sequence = step + 1, .kind = spool::TelemetryKind::metrics, .step = step});
    for (int name = 0; name < 20; ++name) items.back().values[format("m{:02}", name)] = step;
  }
  ASSERT_TRUE(insight_.ingest(kNode, items));
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

// --- Two stores ---

// Refuses points while `fails`.
class FailingSeries : public SeriesStore {
 public:
  explicit FailingSeries(SeriesStore& real) : real_(real) {}
  Result<Appended> append(const PointBatch& batch) override {
    if (fails) return Error{Code::exhausted, "no space"};
    return real_.append(batch);
  }
  Result<std::int64_t> stored_sequence(const model::RunId& run,
                                       const std::string& source) override {
    return real_.stored_sequence(run, source);
  }
  Result<void> sync() override { return real_.sync(); }
  Result<Curve> curve(const CurveQuery& query) override { return real_.curve(query); }
  Result<PointsPage> points(const PointsQuery& query) override { return real_.points(query); }
  Result<LatestPage> latest(const model::RunId& run, const std::optional<SeriesKey>& after,
                            std::int64_t most) override {
    return real_.latest(run, after, most);
  }
  Result<RankCurves> rank_curves(const CurveQuery& query) override {
    return real_.rank_curves(query);
  }
  Result<std::vector<std::optional<double>>> values(const ValuesQuery& query) override {
    return real_.values(query);
  }
  Result<std::vector<MetricRanks>> metrics(const model::RunId& run) override {
    return real_.metrics(run);
  }
  Result<std::optional<MetricRanks>> ranks_of(const model::RunId& run,
                                              const std::string& metric) override {
    return real_.ranks_of(run, metric);
  }
  Result<void> remove(const model::RunId& run) override { return real_.remove(run); }
  Result<std::vector<model::RunId>> remove_oldest(Bytes keep) override {
    return real_.remove_oldest(keep);
  }
  void expire(Expiry expiry) override { real_.expire(std::move(expiry)); }
  Bytes bytes(const model::RunId& run) override { return real_.bytes(run); }
  Bytes bytes() override { return real_.bytes(); }
  std::vector<std::string> problems() override { return real_.problems(); }

  bool fails = false;

 private:
  SeriesStore& real_;
};

class TwoStoresTest : public SeriesTest {
 protected:
  static std::vector<spool::TelemetryItem> items(std::int64_t first, std::int64_t last) {
    std::vector<spool::TelemetryItem> all;
    for (std::int64_t sequence = first; sequence <= last; ++sequence)
      all.push_back(sequence % 2 == 0 ? spool::TelemetryItem{.sequence = sequence, .text = "line"}
                                      : spool::TelemetryItem{.sequence = sequence,
                                                             .kind = spool::TelemetryKind::metrics,
                                                             .step = sequence,
                                                             .values = {{"loss", 1.0}}});
    return all;
  }
  std::size_t lines() { return insight_.log(kRun, {.rank = {}}).value().lines.size(); }

  FailingSeries failing_{*series_};
  Insight fragile_{*database_, failing_};
};

TEST_F(TwoStoresTest, WhilePointsCannotBeStoredTheLinesAreAndThePointsComeAgain) {
  EXPECT_EQ(fragile_.ingest(kNode, items(1, 4)).value(), 4);
  failing_.fails = true;
  EXPECT_EQ(fragile_.ingest(kNode, items(5, 8)).value(), 4) << "5 is a point";
  EXPECT_EQ(fragile_.ingest(kNode, items(5, 8)).value(), 4);
  EXPECT_EQ(lines(), 4u);
  EXPECT_THAT(fragile_.problems(), ElementsAre(HasSubstr("no space")));
  failing_.fails = false;
  EXPECT_EQ(fragile_.ingest(kNode, items(5, 10)).value(), 10);
  EXPECT_EQ(lines(), 5u);
  EXPECT_EQ(ask(100).total, 5);
  EXPECT_EQ(insight_.ingest(kNode, {}).value(), 10);
  EXPECT_THAT(fragile_.problems(), IsEmpty());
}

TEST_F(TwoStoresTest, PointsWhoseTransactionFailedAreNotStoredTwice) {
  ASSERT_FALSE(database_->transaction([&]() -> Result<void> {
    PointBatch batch;
    batch.attempt = {{"demo." + kNode.generation, 1}, 1};
    batch.source = text(kNode);
    batch.sequence = 3;
    batch.series = {{.metric = "loss"}};
    batch.points = {{0, {1, Time{}, 1.0}}, {0, {3, Time{}, 1.0}}};
    TRY(series_->append(batch));
    return Error{Code::exhausted, "the commit failed"};
  }));
  EXPECT_EQ(insight_.ingest(kNode, items(1, 5)).value(), 5);
  const auto stored = series_->latest({"demo." + kNode.generation, 1}, std::nullopt, 10).value();
  EXPECT_EQ(stored.series.at(0).count, 3);
  EXPECT_EQ(insight_.summary(kRun).value().latest.at("loss"), 1.0);
}

TEST_F(TwoStoresTest, ARunOfTheSameNumberInANewDatabaseHasItsOwnPoints) {
  ASSERT_TRUE(insight_.ingest(kNode, items(1, 4)));
  const auto other = store::Database::in_memory().value();
  Insight fresh(*other, *series_);
  EXPECT_THAT(fresh.series(kRun).value().series, IsEmpty());
  const model::NodeName node{"00000000000000bb", kNode.id};
  ASSERT_EQ(fresh.ingest(node, items(1, 2)).value(), 2);
  EXPECT_EQ(fresh.series(kRun).value().series.at(0).total, 1);
  EXPECT_EQ(insight_.series(kRun).value().series.at(0).total, 2);
}

TEST_F(TwoStoresTest, PointsOfAnEarlierVersionAreTakenOverOnceAlsoAfterAKill) {
  ASSERT_TRUE(database_->execute(
      "insert into series (id, project, number, name, rank, epoch, step, time, value) values "
      "(7, 'demo', 1, 'loss', 0, 2, 9999, 0, null)"));
  ASSERT_TRUE(database_->transaction([&]() -> Result<void> {
    for (std::int64_t step = 0; step < 10'000; ++step)
      TRY(
          database_->execute("insert into points (series, step, epoch, time, value) values "
                             "(7, :step, :epoch, :time, :value)",
                             step, 1 + step / 9000, Time(Duration(step)),
                             step == 5 ? std::nullopt : std::optional(0.5)));
    return {};
  }));
  bool killed = false;
  for (bool more = true; more;) {
    const auto before = database_->rows<std::int64_t>("select count(*) from points").value();
    if (!killed && std::get<0>(before[0]) < 10'000) {  // appended, and not removed
      killed = true;
      failing_.fails = false;
      ASSERT_TRUE(
          database_->execute("create trigger keep before delete on points begin select "
                             "raise(abort, 'killed'); end"));
      EXPECT_FALSE(fragile_.take_over_points());
      ASSERT_TRUE(database_->execute("drop trigger keep"));
    }
    more = fragile_.take_over_points().value();
  }
  const auto stored = series_->latest(kRun, std::nullopt, 10).value();
  EXPECT_EQ(stored.series.at(0).count, 10'000);
  EXPECT_EQ(stored.series.at(0).epoch, 2);
  const api::Series series = ask(20'000);
  ASSERT_THAT(series.points, SizeIs(10'000));
  EXPECT_TRUE(std::isnan(series.points[5].value));
  EXPECT_EQ(series.points[6].time, Time(Duration(6)));
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
    ASSERT_EQ(insight.ingest(kNode, items).value(), last_);
  }
  std::size_t series() { return insight_.series(kRun).value().series.size(); }
  std::vector<api::LogLine> lines() { return insight_.log(kRun, {.rank = {}}).value().lines; }

  std::int64_t last_ = 0;
};

TEST_F(RefusalTest, ARunMayHaveOnlySoManySeriesAndItsLogSaysSo) {
  const auto few = open_folder_series(folder_ / "few", {.series = 5}).value();
  Insight strict(*database_, *few);
  for (int i = 0; i < 300; ++i) log(strict, {{format("m{}", i), 1.0}, {"m0", 2.0}});
  EXPECT_EQ(strict.series(kRun).value().series.size(), 5u);
  EXPECT_EQ(insight_.summary(kRun).value().latest.at("m0"), 2.0);
  const auto said = lines();
  ASSERT_THAT(said, SizeIs(3));  // at the 1st, 10th and 100th
  EXPECT_THAT(said[0].text, HasSubstr("5 series"));
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
  Insight strict(*database_, *series_, {.values = 3});
  log(strict, {{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}});
  EXPECT_EQ(series(), 3u);
  EXPECT_THAT(lines()[0].text, HasSubstr("one call may log 3 metrics"));
}

}  // namespace
}  // namespace lockstep::insight

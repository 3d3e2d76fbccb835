#include "platform/insight/insight.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.h"
#include "base/temporary_folder_for_test.h"
#include "platform/insight/ids_for_test.h"
#include "platform/insight/series/folder_series.h"
#include "platform/store/sql_store.h"

namespace lockstep::insight {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const model::NodeName kLater = node_of(2);  // the same node index in the second attempt

spool::TelemetryItem log_item(std::int64_t sequence, std::string text, int rank = 0) {
  return {.sequence = sequence,
          .kind = spool::TelemetryKind::log,
          .rank = rank,
          .text = std::move(text)};
}
spool::TelemetryItem loss(std::int64_t sequence, std::int64_t step, double value, int rank = 0) {
  return {.sequence = sequence,
          .kind = spool::TelemetryKind::metrics,
          .rank = rank,
          .step = step,
          .values = {{"loss", value}}};
}

class InsightTest : public ::testing::Test {
 protected:
  std::int64_t ingest(const model::NodeName& node, std::vector<spool::TelemetryItem> items) {
    return insight_.ingest(node, items).value();
  }
  std::vector<std::string> lines(const LogQuery& query = {}) {
    return texts(insight_.log(kRun, query).value().lines);
  }
  static std::vector<std::string> texts(const std::vector<api::LogLine>& lines) {
    std::vector<std::string> texts;
    for (const auto& line : lines) texts.push_back(line.text);
    return texts;
  }
  std::vector<double> losses(const SeriesQuery& query = {}) {
    std::vector<double> values;
    const auto all = insight_.series(kRun, query).value().series;
    for (const auto& series : all)
      for (const auto& point : series.points) values.push_back(point.value);
    return values;
  }

  std::unique_ptr<store::Database> database_ = store::Database::in_memory().value();
  TemporaryFolder folder_;
  std::unique_ptr<SeriesStore> series_ = open_folder_series(folder_ / "series").value();
  Insight insight_{*database_, *series_};
};

TEST_F(InsightTest, DeliveriesThatComeTogetherAreOneTransaction) {
  const std::vector<spool::TelemetryItem> one = {log_item(1, "one")}, two = {log_item(1, "two")};
  const std::vector<Delivery> deliveries = {{kNode, one}, {kLater, two}, {kNode, one}};
  ingest(node_of(3), one);  // statements that only a run's first call needs
  const std::int64_t before = database_->statements_run();
  ingest(node_of(4), one);
  const std::int64_t alone = database_->statements_run() - before;
  const auto stored = insight_.ingest(deliveries);
  const std::int64_t together = database_->statements_run() - before - alone;
  for (const auto& sequence : stored) EXPECT_EQ(sequence.value(), 1);
  EXPECT_THAT(lines(), ElementsAre("one", "one", "one", "two")) << "the repeated call adds nothing";
  constexpr std::int64_t kBeginAndCommit = 2, kRepeated = 1;
  EXPECT_EQ(together, 2 * alone - kBeginAndCommit + kRepeated);
}

TEST_F(InsightTest, ADeliveryThatCannotBeStoredTakesNoOtherWithIt) {
  const std::vector<spool::TelemetryItem> unordered = {log_item(2, "b"), log_item(1, "a")};
  const std::vector<spool::TelemetryItem> good = {log_item(1, "good")};
  const std::vector<Delivery> deliveries = {{kLater, good}, {kNode, unordered}};
  const auto stored = insight_.ingest(deliveries);
  EXPECT_EQ(stored[0].value(), 1);
  EXPECT_EQ(stored[1].error().code, Code::invalid);
  EXPECT_THAT(lines(), ElementsAre("good"));
}

TEST_F(InsightTest, WhatIsSentTwiceIsStoredOnce) {
  EXPECT_EQ(ingest(kNode, {log_item(1, "one"), log_item(2, "two")}), 2);
  EXPECT_EQ(ingest(kNode, {log_item(2, "two"), log_item(3, "three")}), 3);
  EXPECT_EQ(ingest(kNode, {}), 3);
  EXPECT_THAT(lines(), ElementsAre("one", "two", "three"));
}

TEST_F(InsightTest, ABatchOutOfOrderIsRefused) {
  for (const std::int64_t second : {1, 2}) {
    const std::vector<spool::TelemetryItem> items = {log_item(2, "two"), log_item(second, "one")};
    EXPECT_EQ(insight_.ingest(kNode, items).error().code, Code::invalid);
  }
  EXPECT_EQ(ingest(kNode, {}), 0);
}

TEST_F(InsightTest, EachNodeAndAttemptHasItsOwnSequence) {
  ingest(kNode, {log_item(1, "a")});
  ingest({kNode.generation, {{kRun, 1}, 1}}, {log_item(1, "b", 1)});
  ingest(kLater, {log_item(1, "c")});
  ingest(node_of(1, {"demo", 2}), {log_item(1, "of another run")});
  EXPECT_THAT(lines(), ElementsAre("a", "b", "c"));
}

TEST_F(InsightTest, ABatchThatFailsLeavesNothing) {
  ASSERT_TRUE(
      database_->execute("create trigger no before insert on checkpoints "
                         "begin select raise(abort, 'disk on fire'); end"));
  const std::vector<spool::TelemetryItem> batch = {
      log_item(1, "a"), {.sequence = 2, .kind = spool::TelemetryKind::checkpoint}};
  const auto failed = insight_.ingest(kNode, batch);
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message, HasSubstr("disk on fire"));
  EXPECT_TRUE(lines().empty());
  ASSERT_TRUE(database_->execute("drop trigger no"));
  EXPECT_EQ(ingest(kNode, batch), 2);
  EXPECT_THAT(lines(), ElementsAre("a"));
}

TEST_F(InsightTest, LinesArePagedByCursorAndFilteredByRank) {
  ingest(kNode, {log_item(1, "a\n\nb", 0), log_item(2, "c", 1), log_item(3, "d", 0)});
  EXPECT_THAT(lines(), ElementsAre("a", "", "b", "c", "d"));
  const auto page = insight_.log(kRun, {.limit = 2, .rank = {}}).value().lines;
  EXPECT_THAT(texts(page), ElementsAre("a", ""));
  EXPECT_THAT(lines({.after = page.back().cursor, .rank = {}}), ElementsAre("b", "c", "d"));
  EXPECT_THAT(lines({.rank = 1}), ElementsAre("c"));
  EXPECT_THAT(texts(insight_.log_tail(kRun, 2).value()), ElementsAre("c", "d"));
  EXPECT_THAT(texts(insight_.log_tail(kRun, 2, 0).value()), ElementsAre("b", "d"));
}

TEST_F(InsightTest, AnEmptyTextIsOneEmptyLine) {
  ingest(kNode, {log_item(1, ""), log_item(2, "a\n")});
  EXPECT_THAT(lines(), ElementsAre("", "a", ""));
}

TEST_F(InsightTest, ALineKeepsItsBytes) {
  const std::string odd("null \0 byte, not UTF-8 \xff, quote ' and :name", 43);
  ingest(kNode, {log_item(1, odd)});
  EXPECT_THAT(lines(), ElementsAre(odd));
}

TEST_F(InsightTest, NumbersSurviveExactly) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> odd = {0.1, -infinity, infinity, 5e-324, 1.7976931348623157e308, 3};
  for (std::size_t i = 0; i < odd.size(); ++i)
    ingest(kNode, {loss(static_cast<int>(i) + 1, static_cast<int>(i), odd[i])});
  EXPECT_EQ(losses(), odd);
  ingest(kNode, {loss(100, 100, std::numeric_limits<double>::quiet_NaN())});
  EXPECT_TRUE(std::isnan(losses().back()));
  EXPECT_TRUE(std::isnan(insight_.summary(kRun).value().latest.at("loss")));
}

TEST_F(InsightTest, ALaterAttemptOverridesAndAnEarlierOneNoMore) {
  ingest(kNode, {loss(1, 1, 1.0), loss(2, 2, 2.0), loss(3, 3, 3.0)});
  ingest(kLater, {loss(1, 2, 20.0)});
  ingest(kNode, {loss(4, 2, 2.5), loss(5, 4, 4.0)});
  EXPECT_THAT(losses(), ElementsAre(1.0, 20.0, 3.0, 4.0));
  EXPECT_EQ(insight_.summary(kRun).value().latest.at("loss"), 20.0);
}

TEST_F(InsightTest, RunsAreSortedByTheValuesOfTheLowestRankOverAllAttempts) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  model::Run run;
  run.id = kRun;
  ASSERT_TRUE(store::SqlStore(*database_).commit(std::vector<model::Change>{run}));
  const auto value = [&](store::MetricValue which) {
    const auto found = insight_.ranked_runs({}, {.metric = "loss", .value = which}).value();
    EXPECT_LE(found.size(), 1U);
    return found.empty() ? nan : found[0].value;
  };
  using enum store::MetricValue;
  ingest(kNode, {loss(1, 1, 100, 1), loss(2, 2, -100, 1)});
  EXPECT_EQ(value(least), -100);
  ingest(kNode, {loss(3, 1, 7), loss(4, 2, 3), loss(5, 3, 5), loss(6, 4, 1000, 1)});
  EXPECT_EQ(value(last), 5) << "of rank 0";
  EXPECT_EQ(value(least), 3);
  EXPECT_EQ(value(greatest), 7);
  ingest(kLater, {loss(1, 2, 4)});
  ingest(kNode, {loss(7, 9, 1), loss(8, 10, nan)});
  EXPECT_EQ(value(last), 4) << "of the newest attempt";
  EXPECT_EQ(value(least), 1) << "late, and of an earlier attempt";
  ingest(kLater, {loss(2, 3, nan)});
  EXPECT_TRUE(std::isnan(value(last))) << "left out";
  EXPECT_EQ(value(greatest), 7);
  ingest(kLater, {loss(3, 3, 2)});
  EXPECT_EQ(value(last), 2);
}

TEST_F(InsightTest, SeriesAreFoundByNameRankAndStep) {
  ingest(kNode, {loss(1, 1, 1.0), loss(2, 1, 1.5, 1), loss(3, 2, 2.0)});
  auto both = loss(4, 3, 3.0);
  both.values["rate"] = 9;
  ingest(kNode, {both});
  const auto all = insight_.series(kRun).value().series;
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[1].rank, 1);
  EXPECT_EQ(all[2].name, "rate");
  EXPECT_THAT(losses({.name = "loss", .rank = 0, .after_step = 1}), ElementsAre(2.0, 3.0));
  EXPECT_THAT(losses({.name = "none", .rank = {}, .after_step = {}}), ElementsAre());
  EXPECT_EQ(insight_.summary(kRun).value().latest,
            (std::map<std::string, double>{{"loss", 3.0}, {"rate", 9.0}}));
}

TEST_F(InsightTest, TheLatestValueIsThatOfTheLowestRankOfEachName) {
  ingest(kNode, {loss(1, 1, 1.5, 7), loss(2, 1, 1.0, 3)});
  std::vector<spool::TelemetryItem> many;
  for (int i = 0; i < 1200; ++i) {
    many.push_back(loss(10 + i, 1, i));
    many.back().values = {{"z" + std::to_string(10'000 + i), i}};
  }
  ingest(kNode, many);
  const auto latest = insight_.summary(kRun).value().latest;
  EXPECT_EQ(latest.size(), 1000u);
  EXPECT_EQ(latest.at("loss"), 1.0);
  EXPECT_TRUE(insight_.summary({"demo", 9}).value().latest.empty());
}

TEST_F(InsightTest, AThousandRunsAreSummedUpInAsManyQueriesAsOne) {
  std::vector<model::RunId> runs;
  for (int number = 1; number <= 1000; ++number) {
    const model::RunId& run =
        runs.emplace_back(model::RunId{number % 2 == 0 ? "even" : "odd", number});
    if (number % 10 != 0)
      ingest(node_of(1, run),
             {{.sequence = 1, .kind = spool::TelemetryKind::progress, .step = number},
              loss(2, number, number * 0.5)});
  }
  const auto statements_for = [&](std::span<const model::RunId> some) {
    const auto before = database_->statements_run();
    EXPECT_EQ(insight_.summaries(some).value().size(), some.size());
    return database_->statements_run() - before;
  };
  EXPECT_EQ(statements_for(runs), statements_for({&kRun, 1}));
  const auto all = insight_.summaries(runs).value();
  EXPECT_EQ(all.at({"odd", 7}).progress->step, 7);
  EXPECT_EQ(all.at({"even", 998}).latest, (std::map<std::string, double>{{"loss", 499.0}}));
  EXPECT_FALSE(all.at({"even", 10}).progress);
  EXPECT_TRUE(all.at({"even", 10}).latest.empty());
}

TEST_F(InsightTest, RunsAreSummedUpByTheFewerMetricsTheMoreOfThemThereAre) {
  spool::TelemetryItem many{.sequence = 1, .kind = spool::TelemetryKind::metrics};
  for (int i = 100; i < 200; ++i) many.values[format("m{}", i)] = i;
  ingest(kNode, {many});
  std::vector<model::RunId> runs = {kRun};
  for (int number = 2; number <= 400; ++number) runs.push_back({"demo", number});
  const auto latest = insight_.summaries(runs).value().at(kRun).latest;
  EXPECT_EQ(latest.size(), 50u);
  EXPECT_EQ(latest.rbegin()->first, "m149");
  EXPECT_EQ(insight_.summary(kRun).value().latest.size(), 100u);
}

TEST_F(InsightTest, OfManyCheckpointsTheLastAreShown) {
  std::vector<spool::TelemetryItem> many;
  for (int i = 1; i <= 1100; ++i)
    many.push_back({.sequence = i, .kind = spool::TelemetryKind::checkpoint, .step = i});
  ingest(kNode, many);
  const auto checkpoints = insight_.checkpoints(kRun).value();
  ASSERT_EQ(checkpoints.size(), 1000u);
  EXPECT_EQ(checkpoints.front().step, 101);
  EXPECT_EQ(checkpoints.back().step, 1100);
}

TEST_F(InsightTest, EventsAreKeptOnceInTheirOrderAsLines) {
  const auto event = [](std::int64_t sequence, std::string text) {
    return spool::TelemetryItem{.sequence = sequence,
                                .kind = spool::TelemetryKind::event,
                                .rank = 3,
                                .step = 41,
                                .time = Time(std::chrono::seconds(5)),
                                .text = std::move(text)};
  };
  ingest(kNode, {event(1, "rank 1\ndied"), event(2, std::string(999, 'x') + "\u00e4")});
  ingest(kNode, {event(2, "again")});
  const auto events = insight_.events(kRun).value();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].text, "rank 1 died");
  EXPECT_EQ(events[0].rank, 3);
  EXPECT_EQ(events[0].step, 41);
  EXPECT_EQ(events[0].epoch, kNode.id.attempt.epoch);
  EXPECT_EQ(events[1].text, std::string(999, 'x'));
}

TEST_F(InsightTest, OfManyEventsTheNewestAreKeptAndItIsSaidHowManyAreNot) {
  std::vector<spool::TelemetryItem> many;
  for (int i = 1; i <= 230; ++i)
    many.push_back(
        {.sequence = i, .kind = spool::TelemetryKind::event, .text = format("event {}", i)});
  ingest(kNode, many);
  const auto events = insight_.events(kRun).value();
  ASSERT_EQ(events.size(), 201u);
  EXPECT_THAT(events[0].text, HasSubstr("30 events"));
  EXPECT_EQ(events[1].text, "event 31");
  EXPECT_EQ(events.back().text, "event 230");
}

TEST_F(InsightTest, ProgressAndCheckpointsAreThoseOfTheNewestAttempt) {
  EXPECT_EQ(insight_.summary(kRun).value().progress, std::nullopt);
  ingest(kNode,
         {{.sequence = 1, .kind = spool::TelemetryKind::progress, .step = 30, .steps = 400},
          {.sequence = 2, .kind = spool::TelemetryKind::checkpoint, .step = 10, .text = "/c/10"},
          {.sequence = 3, .kind = spool::TelemetryKind::checkpoint, .step = 20, .text = "/c/20"}});
  ingest(kLater,
         {{.sequence = 1, .kind = spool::TelemetryKind::progress, .step = 11, .steps = 400},
          {.sequence = 2, .kind = spool::TelemetryKind::checkpoint, .step = 20, .text = "/c/20b"}});
  ingest(kNode,
         {{.sequence = 4, .kind = spool::TelemetryKind::progress, .step = 31, .steps = 400}});
  EXPECT_EQ(insight_.summary(kRun).value().progress->step, 11);
  const auto checkpoints = insight_.checkpoints(kRun).value();
  ASSERT_EQ(checkpoints.size(), 2u);
  EXPECT_EQ(checkpoints[0].path, "/c/10");
  EXPECT_EQ(checkpoints[1].path, "/c/20b");
  EXPECT_EQ(checkpoints[1].epoch, 2);
}

TEST_F(InsightTest, TheStepsOfMetricsTellHowFarAProgramIsThatDoesNotSay) {
  ingest(kNode, {loss(1, 7, 1.0), loss(2, 9, 1.0), loss(3, 8, 1.0, 1)});
  EXPECT_EQ(insight_.summary(kRun).value().progress->step, 9);
  EXPECT_EQ(insight_.summary(kRun).value().progress->steps, 0);
  ingest(kLater, {loss(1, 5, 1.0)});
  EXPECT_EQ(insight_.summary(kRun).value().progress->step, 5);  // it continued from a checkpoint
  ingest(kLater, {{.sequence = 2, .kind = spool::TelemetryKind::progress, .step = 2, .steps = 10}});
  ingest(kLater, {loss(3, 6, 1.0)});
  EXPECT_EQ(insight_.summary(kRun).value().progress->step, 2);
  EXPECT_EQ(insight_.summary(kRun).value().progress->steps, 10);
}

}  // namespace
}  // namespace lockstep::insight

// The table of examples is shared with the page: web/src/query/golden.test.ts.
#include "platform/store/run_query.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/os/files.h"
#include "platform/store/run_values.h"
#include "platform/store/sql_store.h"
#include "text/convert.h"
#include "text/json.h"

namespace lockstep::store {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Json read_table() {
  return parse_json(read_file(std::filesystem::path(LOCKSTEP_GOLDEN) / "run-query.json").value())
      .value();
}

model::Run run_of(const Json& row) {
  model::Run run;
  run.id = model::parse_run_id(row["id"].get<std::string>()).value();
  run.spec.project = run.id.project;
  run.spec.name = row["name"].get<std::string>();
  run.spec.command = from_json<std::vector<std::string>>(row["command"]).value();
  run.spec.nodes = row.value("nodes", 1);
  run.spec.devices = row.value("devices", 1);
  run.spec.remainder = row.value("remainder", 0);
  run.spec.run_class = parse_name<model::RunClass>(row.value("class", "normal")).value();
  if (row.contains("timeout"))
    run.spec.timeout = parse_duration(row["timeout"].get<std::string>()).value();
  run.origin.user = row["user"].get<std::string>();
  run.origin.git_commit = row.value("git_commit", "");
  run.state = parse_name<model::RunState>(row["state"].get<std::string>()).value();
  run.reason = row.value("reason", "");
  run.priority = row.value("priority", 0);
  run.note = row.value("note", "");
  if (row.value("held", false)) run.held = "";
  if (row.contains("tags")) run.tags = from_json<model::Tags>(row["tags"]).value();
  run.submitted = run.queued = parse_time(row["submitted"].get<std::string>()).value();
  if (row.contains("started")) run.started = parse_time(row["started"].get<std::string>()).value();
  if (row.contains("ended")) run.ended = parse_time(row["ended"].get<std::string>()).value();
  run.time_used = from_seconds(row.value("running_seconds", 0));
  run.charged = std::chrono::minutes(row.value("cost_minutes", 0));
  return run;
}

class RunQueryTest : public ::testing::Test {
 protected:
  RunQueryTest() {
    std::vector<model::Change> rows;
    for (const Json& row : table_["runs"]) rows.emplace_back(run_of(row));
    EXPECT_TRUE(store_.commit(rows));
    for (const Json& row : table_["runs"]) add_reports(row);
  }

  void add_reports(const Json& row) {
    const model::RunId run = run_of(row).id;
    if (row.contains("step")) {
      EXPECT_TRUE(database_->execute(
          "insert into progress (project, number, epoch, step, steps, time) values (:p, :n, 1, "
          ":step, :steps, 0)",
          run.project, run.number, row["step"].get<int>(), row["steps"].get<int>()));
    }
    if (!row.contains("latest")) return;
    for (const auto& [name, json] : row["latest"].items()) {
      const double value = from_json<double>(json).value();
      add_metric(run, name, std::isnan(value) ? std::nullopt : std::optional(value));
    }
  }
  void add_metric(const model::RunId& run, const std::string& name, std::optional<double> value) {
    EXPECT_TRUE(database_->execute(
        "insert into latest_metrics (project, number, name, rank, epoch, step, time, value) values "
        "(:project, :number, :name, 0, 1, 1, 1, :value)",
        run.project, run.number, name, value));
  }

  RunSelection selection(std::string_view line, int limit = 100) const {
    return {.query = run_query::parse_query(line).value(),
            .filter = {.limit = limit},
            .now = parse_time(table_["now"].get<std::string>()).value()};
  }
  std::vector<std::string> select(RunSelection selection) {
    std::vector<std::string> found;
    for (int answers = 0; answers < 100; ++answers) {
      const auto page = select_runs(*database_, selection);
      EXPECT_TRUE(page) << page.error().message;
      if (!page) break;
      for (const SelectedRun& run : page->runs) found.push_back(text(run.run));
      if (!page->next) return found;
      selection.after = page->next;
    }
    ADD_FAILURE() << "it has no end";
    return found;
  }
  std::vector<std::string> select(std::string_view line) { return select(selection(line)); }

  Json table_ = read_table();
  std::unique_ptr<Database> database_ = Database::in_memory().value();
  SqlStore store_{*database_};
};

TEST_F(RunQueryTest, ALineSelectsTheRunsOfTheTable) {
  for (const Json& example : table_["cases"]) {
    const auto line = example["query"].get<std::string>();
    const auto expected = from_json<std::vector<std::string>>(example["runs"]).value();
    EXPECT_EQ(select(line), expected) << line;
  }
}

TEST_F(RunQueryTest, PagesHaveEachRunOnceInTheOrderOfTheWhole) {
  for (const Json& example : table_["cases"])
    for (const int limit : {1, 2})
      for (const int looked_at : {1, 3, 100}) {
        const auto line = example["query"].get<std::string>();
        RunSelection pages = selection(line, limit);
        pages.looked_at_max = looked_at;
        EXPECT_EQ(select(std::move(pages)),
                  from_json<std::vector<std::string>>(example["runs"]).value())
            << line << ", limit " << limit << ", " << looked_at << " runs a call";
      }
}

TEST_F(RunQueryTest, RunsSubmittedAtOnceAreInTheOrderOfTheirNumbers) {
  ASSERT_TRUE(database_->execute("update runs set submitted = 1"));
  std::vector<std::int64_t> numbers;
  for (const std::string& run : select(selection("nodes>0", 1)))
    numbers.push_back(model::parse_run_id(run).value().number);
  EXPECT_EQ(numbers.size(), table_["runs"].size());
  EXPECT_TRUE(std::ranges::is_sorted(numbers, std::ranges::greater()));
}

TEST_F(RunQueryTest, ACallLooksAtABoundedNumberOfRuns) {
  RunSelection one = selection("reason:space");
  one.looked_at_max = 2;
  const auto page = select_runs(*database_, one).value();
  EXPECT_THAT(page.runs, IsEmpty());
  EXPECT_TRUE(page.next);
}

TEST_F(RunQueryTest, TheFilterAppliesToo) {
  RunSelection filtered = selection("lr>0");
  filtered.filter.projects = {"vision", "none"};
  EXPECT_THAT(select(filtered), ElementsAre("vision/2", "vision/1"));
  filtered.filter.projects.reset();
  filtered.filter.project = "demo";
  EXPECT_THAT(select(filtered), ElementsAre("demo/2", "demo/1"));
  filtered.filter.until = parse_time("2026-01-02T00:00:00Z").value();
  EXPECT_THAT(select(filtered), ElementsAre("demo/1"));
  RunSelection tagged = selection("");
  tagged.filter.tag = model::TagFilter{"team"};
  EXPECT_THAT(select(tagged), ElementsAre("vision-old/1", "demo/1"));
}

TEST_F(RunQueryTest, AnAnswerHasTheValuesOfSortAndGroup) {
  const auto page = select_runs(*database_, selection("sort:lr group:user lr<0.1")).value();
  ASSERT_EQ(page.runs.size(), 3u);
  EXPECT_EQ(page.runs[2].sorted, run_query::Value(0.05)) << "the metric hides the setting";
  EXPECT_EQ(page.runs[2].group, run_query::Value("ann"));
  EXPECT_EQ(page.runs[2].state, "timed_out");
}

TEST_F(RunQueryTest, ASortThatNoIndexHasIsRefused) {
  for (const auto* line : {"sort:reason", "sort:-command", "sort:tag.team", "sort:id"}) {
    const auto refused = select_runs(*database_, selection(line));
    ASSERT_FALSE(refused) << line;
    EXPECT_THAT(refused.error().message, HasSubstr("sort by a metric, a setting or one of"));
  }
  RunSelection odd = selection("");
  odd.after = "1/demo/1";
  EXPECT_FALSE(select_runs(*database_, odd));
}

TEST_F(RunQueryTest, AReasonIsFoundAsTheCallerMayReadIt) {
  RunSelection masked = selection("reason:space");
  masked.readable_reason = [](std::string_view) { return "hidden"; };
  EXPECT_THAT(select(masked), IsEmpty());
  masked.query = run_query::parse_query("\"no space\"").value();
  EXPECT_THAT(select(masked), IsEmpty());
  masked.query = run_query::parse_query("id=demo/2 group:reason").value();
  EXPECT_EQ(select_runs(*database_, masked)->runs.at(0).group, run_query::Value("hidden"));
}

TEST_F(RunQueryTest, ARunThatWaitsHasTheReasonOfTheQueue) {
  RunSelection waiting = selection("reason:demo/7");
  waiting.wait_reasons = {{{"vision", 2}, "waits behind demo/7"}};
  EXPECT_THAT(select(waiting), ElementsAre("vision/2"));
}

TEST_F(RunQueryTest, APlaceIsOfItsOwnList) {
  RunSelection huge = selection("");
  for (const auto* place : {R"([false,"n1e300","demo",1])", R"([false,"n-1e300","demo",1])"}) {
    huge.after = place;
    EXPECT_TRUE(select_runs(*database_, huge)) << place;
  }
  huge.after = R"([false,"nnan","demo",1])";
  EXPECT_FALSE(select_runs(*database_, huge));
  RunSelection one = selection("", 1);
  one.filter.project = "demo";
  const auto page = select_runs(*database_, one).value();
  one.filter.project.reset();
  one.after = page.next;
  EXPECT_FALSE(select_runs(*database_, one)) << "its runs are listed by their numbers";
}

TEST_F(RunQueryTest, ARemovedRunLeavesNoValues) {
  ASSERT_TRUE(store_.remove_run(*store_.find_run({"demo", 1}).value(), {}));
  EXPECT_THAT(select("lr=3e-4"), ElementsAre("demo/2"));
  EXPECT_TRUE(database_
                  ->rows<std::string>("select name from run_values where project = 'demo' and "
                                      "number = 1")
                  .value()
                  .empty());
}

TEST_F(RunQueryTest, RunsOfAnEarlierVersionAreReadTheNewestFirst) {
  ASSERT_TRUE(database_->execute("delete from run_values"));
  ASSERT_TRUE(database_->execute(
      "insert into unread_runs (project, number) select project, number from runs order by "
      "submitted"));
  ASSERT_TRUE(store_.commit(std::vector<model::Change>{run_of(table_["runs"][0])}));
  EXPECT_EQ(runs_without_values(*database_).value(), 5);
  EXPECT_TRUE(take_over_run_values(*database_, 3).value());
  EXPECT_EQ(runs_without_values(*database_).value(), 2);
  EXPECT_THAT(select("lr>0"), ElementsAre("vision/2", "vision/1", "demo/1"));
  EXPECT_TRUE(take_over_run_values(*database_, 3).value());
  EXPECT_FALSE(take_over_run_values(*database_, 3).value());
  EXPECT_THAT(select("lr=3e-4"), ElementsAre("demo/2", "demo/1"));
}

}  // namespace
}  // namespace lockstep::store

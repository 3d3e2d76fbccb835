// Searches over rows that the test writes.
#include "platform/server/mlflow/run_query.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/server/mlflow/run_name.h"
#include "platform/store/sql_store.h"

namespace lockstep::mlflow {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class RunQueryTest : public ::testing::Test {
 protected:
  RunQueryTest() {
    add(1, model::RunState::running, 0.5, "adam");
    add(2, model::RunState::succeeded, 0.25, "sgd");
    add(3, model::RunState::failed, std::nullopt, "Adam");
  }
  void add(std::int64_t number, model::RunState state, std::optional<double> loss,
           const std::string& optimizer) {
    model::Run row;
    row.id = {"demo", number};
    row.generation = "g";
    row.spec.name = "run" + std::to_string(number);
    row.spec.command = {"train"};
    row.origin.user = "ann";
    row.state = state;
    row.epoch = 1;
    row.submitted = row.queued = Time(std::chrono::seconds(number));
    if (model::is_final(state)) row.ended = row.submitted + std::chrono::seconds(1);
    ASSERT_TRUE(store::SqlStore(*database_).commit(std::vector<model::Change>{row}));
    if (loss)
      run("insert into latest_metrics (project, number, name, rank, epoch, step, time, value, "
          "least, "
          "greatest) values ('demo', :n, 'loss', 0, 1, 7, 0, :v, :l, :g)",
          number, *loss, *loss, *loss);
    run("insert into mlflow_values values ('demo', :n, 'param', 'optimizer', :v)", number,
        optimizer);
  }
  template <class... Args>
  void run(std::string_view sql, const Args&... args) {
    const auto done = database_->execute(sql, args...);
    ASSERT_TRUE(done) << done.error().message;
  }
  std::vector<std::int64_t> search(std::string_view filter, std::string_view order = "") {
    RunSearch search;
    search.project = "demo";
    search.experiments = {kDefaultExperiment};
    search.filter = parse_filter(filter).value();
    if (!order.empty()) search.order = {parse_ordering(order).value()};
    return numbers(search);
  }
  std::vector<std::int64_t> numbers(const RunSearch& search) {
    const auto found = tracking_.search(search);
    EXPECT_TRUE(found) << (found ? "" : found.error().message);
    std::vector<std::int64_t> numbers;
    for (const RunRow& row : *found) numbers.push_back(row.id.number);
    return numbers;
  }

  std::unique_ptr<store::Database> database_ = store::Database::in_memory().value();
  Tracking tracking_{*database_};
};

TEST_F(RunQueryTest, WithoutAFilterTheNewestRunsComeFirst) {
  EXPECT_THAT(search(""), ElementsAre(3, 2, 1));
}

TEST_F(RunQueryTest, MetricsAreCompared) {
  EXPECT_THAT(search("metrics.loss < 0.5"), ElementsAre(2));
  EXPECT_THAT(search("metrics.loss <= 0.5 and metrics.loss > 0.1"), ElementsAre(2, 1));
  EXPECT_THAT(search("metrics.loss != 0.5"), ElementsAre(2)) << "a run without it is not found";
  EXPECT_THAT(search("metrics.other > 0"), IsEmpty());
}

TEST_F(RunQueryTest, LikeHasCaseAndIlikeHasNone) {
  EXPECT_THAT(search("params.optimizer = 'adam'"), ElementsAre(1));
  EXPECT_THAT(search("params.optimizer LIKE 'ad%'"), ElementsAre(1));
  EXPECT_THAT(search("params.optimizer LIKE '_dam'"), ElementsAre(3, 1));
  EXPECT_THAT(search("params.optimizer ILIKE 'AD%'"), ElementsAre(3, 1));
  EXPECT_THAT(search("params.optimizer LIKE '*'"), IsEmpty()) << "a letter of GLOB";
}

TEST_F(RunQueryTest, AttributesAreCompared) {
  EXPECT_THAT(search("status = 'FINISHED'"), ElementsAre(2));
  EXPECT_THAT(search("status IN ('RUNNING', 'FAILED')"), ElementsAre(3, 1));
  EXPECT_THAT(search("run_id NOT IN ('demo-1')"), ElementsAre(3, 2));
  EXPECT_THAT(search("start_time >= 2000"), ElementsAre(3, 2));
  EXPECT_THAT(search("run_name = 'run2' and user_id = 'ann'"), ElementsAre(2));
}

TEST_F(RunQueryTest, AbsentValuesAreFound) {
  ASSERT_TRUE(tracking_.put({"demo", 2}, ValueKind::tag, {"stage", "final"}));
  EXPECT_THAT(search("tags.stage IS NULL"), ElementsAre(3, 1));
  EXPECT_THAT(search("tags.stage IS NOT NULL"), ElementsAre(2));
}

TEST_F(RunQueryTest, RunsWithoutTheValueAreTheLastOfAnOrder) {
  EXPECT_THAT(search("", "metrics.loss ASC"), ElementsAre(2, 1, 3));
  EXPECT_THAT(search("", "metrics.loss DESC"), ElementsAre(1, 2, 3));
  EXPECT_THAT(search("", "params.optimizer"), ElementsAre(3, 1, 2));
}

TEST_F(RunQueryTest, PagesAndDeletedRuns) {
  RunSearch search{.project = "demo", .experiments = {0}, .filter = {}, .order = {}, .limit = 2};
  EXPECT_THAT(numbers(search), ElementsAre(3, 2));
  search.offset = 2;
  EXPECT_THAT(numbers(search), ElementsAre(1));
  ASSERT_TRUE(tracking_.set_deleted({"demo", 1}, true));
  EXPECT_THAT(numbers(search), IsEmpty());
  search.deleted = true;
  search.offset = 0;
  EXPECT_THAT(numbers(search), ElementsAre(1));
}

TEST_F(RunQueryTest, AClientSaysTheStatusUntilLockstepKnowsTheEnd) {
  ASSERT_TRUE(tracking_.add_run({"demo", 1}, 0, "mine", 1, ""));
  ASSERT_TRUE(tracking_.set_status({"demo", 1}, "FINISHED", 5));
  const RunRow row = tracking_.find_run({"demo", 1}).value().value();
  EXPECT_EQ(row.status, "FINISHED");
  EXPECT_EQ(row.end, 5);
  EXPECT_EQ(row.name, "mine");
  ASSERT_TRUE(tracking_.set_status({"demo", 3}, "RUNNING", std::nullopt));
  EXPECT_EQ(tracking_.find_run({"demo", 3}).value()->status, "FAILED") << "it has ended";
}

TEST_F(RunQueryTest, AParameterDoesNotChange) {
  const model::RunId run{"demo", 1};
  EXPECT_TRUE(tracking_.put(run, ValueKind::param, {"optimizer", "adam"}));
  const auto changed = tracking_.put(run, ValueKind::param, {"optimizer", "sgd"});
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().code, Code::invalid);
}

TEST(MlflowRunName, ItHasTheLettersThatClientsTake) {
  for (const auto* project : {"demo", "my_lab", "a.b", "x_d.y-2"}) {
    const model::RunId run{project, 42};
    const std::string name = run_name(run);
    EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_-"), std::string::npos);
    EXPECT_EQ(parse_run_name(name).value(), run) << name;
  }
  EXPECT_EQ(run_name({"my_lab", 3}), "my__lab-3");
  for (const auto* wrong : {"", "demo", "demo-", "demo-x", "a_-3", "a_x-3", "0f3e9c2b"})
    EXPECT_FALSE(parse_run_name(wrong)) << wrong;
}

}  // namespace
}  // namespace lockstep::mlflow

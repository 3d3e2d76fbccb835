// The daemon as the agent of the runs that clients make, with a clock of the test.
#include "platform/server/mlflow/mlflow_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temporary_folder_for_test.h"
#include "platform/insight/series/folder_series.h"
#include "platform/store/memory_history_for_test.h"
#include "platform/store/sql_store.h"

namespace lockstep::mlflow {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

// Than an agent may be silent.
constexpr Duration kLonger = minutes(7);

class TestClock : public Clock, public SteadyClock {
 public:
  Time now() const override { return time; }
  Duration since_boot() const override { return time - Time(); }
  std::string boot_id() const override { return "boot"; }

  Time time = Time(hours(24 * 365 * 50));
};

class NoEngine : public engine::Engine {
 public:
  std::string_view name() const override { return "none"; }
  void submit(engine::Gang) override {}
  void kill(const model::NodeName&) override {}
  Result<engine::EngineList> list() override { return engine::EngineList(); }
};

map::ClusterMap one_host() {
  map::ClusterMap map;
  map::Host& host = map.pods.emplace_back().leaves.emplace_back().hosts.emplace_back();
  host.id = "a";
  host.address = "10.0.0.1";
  host.islands.emplace_back().devices.push_back({map::DeviceKind::gpu, 0, {}, false});
  return map;
}

class MlflowServerTest : public ::testing::Test {
 protected:
  MlflowServerTest() {
    directory_.daemon_user = "ann";
    directory_.users["ann"] = {.name = "ann", .admin = true};
    directory_.projects["default"] = {.name = "default"};
    open();
  }
  // As a daemon that starts.
  void open() {
    server_.reset();
    controller_.reset();
    controller_ = controller::Controller::open({.store = store_,
                                                .history = history_,
                                                .engine = engine_,
                                                .clock = clock_,
                                                .steady = clock_,
                                                .keys = host::Keys::open(folder_.path()).value(),
                                                .map = one_host(),
                                                .home = folder_.path()})
                      .value();
    controller_->tick();
    server_ = std::make_unique<MlflowServer>(loop_, mlflow::Setup{.controller = *controller_,
                                                                  .insight = insight_,
                                                                  .database = *database_,
                                                                  .directory = directory_,
                                                                  .clock = clock_,
                                                                  .steady = clock_,
                                                                  .artifacts = artifacts_});
  }
  net::HttpResponse answer(const std::string& method, std::vector<std::string> path,
                           const Json& body, const identity::Bearer& bearer) {
    net::HttpRequest request;
    request.method = method;
    request.path = {"api", "2.0", "mlflow"};
    request.path.insert(request.path.end(), path.begin(), path.end());
    request.body = dump_json(body);
    return server_->handle(request, {.bearer = bearer});
  }
  Json call(const std::string& method, std::vector<std::string> path, const Json& body) {
    const auto got = answer(method, std::move(path), body, {.user = "ann"});
    EXPECT_EQ(got.status, 200) << got.body;
    return parse_json(got.body).value();
  }
  std::string create() {
    return call("POST", {"runs", "create"}, {{"experiment_id", "0"}})["run"]["info"]["run_id"];
  }
  // With ticks, so that silent nodes are found.
  void pass(Duration time) {
    for (const Time end = clock_.time + time; clock_.time < end;) {
      clock_.time += seconds(2);
      server_->report_ranks();
      controller_->tick();
    }
  }
  const model::Run& run() {
    const model::RunId id{"default", 1};
    EXPECT_TRUE(controller_->fetch(id));
    return controller_->state().runs.at(id);
  }

  const TemporaryFolder folder_;
  TestClock clock_;
  std::unique_ptr<store::Database> database_ = store::Database::in_memory().value();
  store::SqlStore store_{*database_};
  store::MemoryHistory history_;
  NoEngine engine_;
  std::unique_ptr<insight::SeriesStore> series_ =
      insight::open_folder_series(folder_.path() / "series").value();
  insight::Insight insight_{*database_, *series_};
  identity::Directory directory_;
  artifacts::Artifacts artifacts_{*database_, folder_.path() / "artifacts"};
  net::Loop loop_;
  std::unique_ptr<controller::Controller> controller_;
  std::unique_ptr<MlflowServer> server_;
};

TEST_F(MlflowServerTest, ARunWhoseClientComputesForHoursStaysOpen) {
  const std::string id = create();
  clock_.time += hours(3);
  pass(kLonger);
  EXPECT_EQ(run().state, model::RunState::running);
  call("POST", {"runs", "log-metric"},
       {{"run_id", id}, {"key", "loss"}, {"value", 0.5}, {"timestamp", 1}});
  call("POST", {"runs", "update"}, {{"run_id", id}, {"status", "FINISHED"}});
  pass(seconds(10));
  EXPECT_EQ(run().state, model::RunState::succeeded);
}

TEST_F(MlflowServerTest, AnEndThatCannotBeStoredIsAnErrorAndCanBeSentAgain) {
  const std::string id = create();
  const Json end = {{"run_id", id}, {"status", "FINISHED"}};
  ASSERT_TRUE(
      database_->execute("create trigger full before update on runs begin select raise(abort, "
                         "'no space'); end"));
  EXPECT_NE(answer("POST", {"runs", "update"}, end, {.user = "ann"}).status, 200);
  EXPECT_EQ(run().state, model::RunState::running);
  ASSERT_TRUE(database_->execute("drop trigger full"));
  EXPECT_EQ(call("POST", {"runs", "update"}, end)["run_info"]["status"], "FINISHED");
  pass(seconds(10));
  EXPECT_EQ(run().state, model::RunState::succeeded);
}

TEST_F(MlflowServerTest, ARunWhoseClientIsGoneForADayEnds) {
  const std::string id = create();
  clock_.time += hours(23);
  pass(kLonger);
  EXPECT_EQ(run().state, model::RunState::running);
  call("POST", {"runs", "set-tag"}, {{"run_id", id}, {"key", "a"}, {"value", "b"}});
  clock_.time += hours(23);
  pass(kLonger);
  EXPECT_EQ(run().state, model::RunState::running) << "the client has called";
  clock_.time += hours(2);
  pass(kLonger);
  EXPECT_EQ(run().state, model::RunState::failed);
  EXPECT_EQ(call("POST", {"runs", "get"}, {{"run_id", id}})["run"]["info"]["status"], "FAILED");
}

TEST_F(MlflowServerTest, ADaemonThatStartsAgainGoesOnWithTheRun) {
  const std::string id = create();
  clock_.time += minutes(30);
  open();
  pass(kLonger);
  EXPECT_EQ(run().state, model::RunState::running);
  call("POST", {"runs", "update"}, {{"run_id", id}, {"status", "KILLED"}});
  pass(seconds(10));
  EXPECT_EQ(run().state, model::RunState::cancelled);
}

TEST_F(MlflowServerTest, TheTokenOfARemovedMemberListsNothing) {
  directory_.users["bob"] = {.name = "bob"};
  directory_.projects["own"] = {.name = "own"};
  directory_.members[{"own", "bob"}].role = identity::Role::member;
  const identity::Bearer bob{.user = "bob", .token = "t", .project = "own"};
  const auto status = [&](std::vector<std::string> path, const Json& body) {
    return answer("POST", std::move(path), body, bob).status;
  };
  const auto expect_all = [&](int expected) {
    EXPECT_EQ(status({"experiments", "search"}, Json::object()), expected);
    EXPECT_EQ(status({"experiments", "get"}, {{"experiment_id", "0"}}), expected);
    EXPECT_EQ(status({"experiments", "get-by-name"}, {{"experiment_name", "Default"}}), expected);
    EXPECT_EQ(status({"runs", "search"}, {{"experiment_ids", {"0"}}}), expected);
  };
  expect_all(200);
  directory_.members.clear();
  expect_all(404);
  EXPECT_EQ(status({"experiments", "create"}, {{"name", "a"}}), 404);
  EXPECT_EQ(status({"runs", "create"}, {{"experiment_id", "0"}}), 404);
}

TEST_F(MlflowServerTest, ARunOfAnExperimentIsInTheProjectOfTheExperimentOrRefused) {
  directory_.users["bob"] = {.name = "bob", .project = "own"};
  directory_.projects["own"] = {.name = "own"};
  directory_.members[{"own", "bob"}].role = identity::Role::member;
  directory_.members[{"default", "bob"}].role = identity::Role::viewer;
  const Json made = call("POST", {"experiments", "create"}, {{"name", "shared"}});
  const Json body = {{"experiment_id", made["experiment_id"]}};
  const auto create_as_bob = [&] {
    return answer("POST", {"runs", "create"}, body, {.user = "bob"});
  };
  EXPECT_EQ(create_as_bob().status, 403);
  directory_.members[{"default", "bob"}].role = identity::Role::member;
  const auto got = create_as_bob();
  EXPECT_THAT(got.body, testing::HasSubstr("\"default-1\""));
}

TEST_F(MlflowServerTest, ANameOfAMetricHasNoControlCharacters) {
  const Json good = {{"key", "loss"}, {"value", 0.5}, {"timestamp", 1}};
  Json wrong = good;
  wrong["key"] = "lo\nss";
  const Json body = {{"run_id", create()}, {"metrics", {good, wrong}}};
  const auto got = answer("POST", {"runs", "log-batch"}, body, {.user = "ann"});
  EXPECT_EQ(got.status, 400);
  EXPECT_THAT(got.body, testing::HasSubstr("metrics[1]: a name has no control characters"));
}

TEST_F(MlflowServerTest, RequestsHaveBounds) {
  const auto refused = [&](std::vector<std::string> path, const Json& body) {
    const auto got = answer("POST", std::move(path), body, {.user = "ann"});
    EXPECT_EQ(got.status, 400);
    return got.body;
  };
  const auto search = [&](const Json& body) { return refused({"runs", "search"}, body); };
  using testing::HasSubstr;
  EXPECT_THAT(search({{"experiment_ids", std::vector<std::string>(101, "0")}}), HasSubstr("100"));
  EXPECT_THAT(search({{"order_by", std::vector<std::string>(11, "status")}}), HasSubstr("10"));
  EXPECT_THAT(search({{"filter", std::string(10'001, ' ')}}), HasSubstr("10000"));
  std::string terms = "status = 'a'";
  for (int i = 0; i < 50; ++i) terms += " and status = 'a'";
  EXPECT_THAT(search({{"filter", terms}}), HasSubstr("50 comparisons"));
  const std::string name(8001, 'n');
  EXPECT_THAT(refused({"runs", "create"}, {{"run_name", name}}), HasSubstr("8000"));
  const Json renamed = {{"run_id", create()}, {"run_name", name}};
  EXPECT_THAT(refused({"runs", "update"}, renamed), HasSubstr("8000"));
}

TEST_F(MlflowServerTest, SeveralRunsStayOpen) {
  for (int i = 0; i < 3; ++i) create();
  pass(kLonger);
  for (std::int64_t number = 1; number <= 3; ++number) {
    const model::RunId id{"default", number};
    ASSERT_TRUE(controller_->fetch(id));
    EXPECT_EQ(controller_->state().runs.at(id).state, model::RunState::running);
  }
}

}  // namespace
}  // namespace lockstep::mlflow

// The server, called by the real client, over a store in memory and an engine that only remembers.
#include "platform/server/server.h"

#include <future>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/files.h"
#include "net/http_client.h"
#include "platform/api/error.h"
#include "platform/api/openapi.h"
#include "platform/api/paths.h"
#include "platform/api/proof.h"
#include "platform/api/routes.h"
#include "platform/store/database.h"
#include "platform/store/memory_store_for_test.h"
#include "text/json.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class FakeEngine : public Engine {
 public:
  Result<void> launch(const Launch& launch) override {
    there.push_back(parse_node_id(launch.node).value());
    return {};
  }
  Result<void> kill(const NodeId& node) override {
    std::erase(there, node);
    return {};
  }
  Result<std::vector<Present>> list() override {
    std::vector<Present> present;
    for (const NodeId& node : there) present.push_back({node});
    return present;
  }

  std::vector<NodeId> there;
};

Map one_host() {
  Map map;
  Host& host = map.pods.emplace_back().leaves.emplace_back().hosts.emplace_back();
  host.id = "a";
  host.address = "10.0.0.1";
  Island& island = host.islands.emplace_back();
  for (int number : {0, 1}) island.devices.push_back({DeviceKind::gpu, number, {}, false});
  return map;
}

const RunId kRunId{"demo", 1};
const NodeId kNodeId{{kRunId, 1}, 0};

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() {
    std::string pattern = (fs::temp_directory_path() / "server-XXXXXX").string();
    home_.folder = ::mkdtemp(pattern.data());
    keys_.emplace(Keys::open(home_.folder).value());
    controller_ = Controller::open({.store = store_,
                                    .engine = engine_,
                                    .clock = clock_,
                                    .keys = *keys_,
                                    .map = one_host(),
                                    .home = home_.folder})
                      .value();
    server_ = Server::start(loop_, {.controller = *controller_,
                                    .insight = insight_,
                                    .keys = *keys_,
                                    .clock = clock_,
                                    .home = home_,
                                    .version = "1.2.3",
                                    .troubles = [] { return std::vector<std::string>{"oh"}; }})
                  .value();
    url_ = parse_url(server_->url()).value();
    user_token_ = read_file(home_.token_file()).value();
    user_token_.pop_back();
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~ServerTest() override {
    loop_.stop();
    thread_.join();
    fs::remove_all(home_.folder);
  }

  HttpResponse call(HttpCall call, std::optional<std::string> authorization) {
    if (authorization) call.headers.add("Authorization", *authorization);
    return HttpClient(url_).call(call, Deadline::after(seconds(20))).value();
  }
  // As the user, who means it to work.
  HttpResponse ask(std::string method, std::string target, std::string body = "") {
    return call({.method = std::move(method),
                 .target = std::move(target),
                 .headers = {{"Content-Type", "application/json"}},
                 .body = std::move(body)},
                "Bearer " + user_token_);
  }
  Json get(std::string target) {
    const HttpResponse response = ask("GET", std::move(target));
    EXPECT_EQ(response.status, 200) << response.body;
    return parse_json(response.body).value();
  }
  void submit() {
    const HttpResponse response =
        ask("POST", "/api/v1/runs",
            R"({"spec":{"project":"demo","name":"n","command":["train"],"devices":2,)"
            R"("working_folder":"/"},"origin":{"user":"ann"}})");
    ASSERT_EQ(response.status, 200) << response.body;
  }
  Json heartbeat(std::string_view state, const Json& more = Json::object()) {
    Json body = {{"node", text(kNodeId)}, {"state", state},          {"address", "10.0.0.1"},
                 {"master_port", 1000},   {"rendezvous_port", 1001}, {"agent_pid", 7}};
    body.update(more);
    const HttpResponse response = call({.method = "POST",
                                        .target = heartbeat_target(),
                                        .headers = {{"Content-Type", "application/json"}},
                                        .body = dump_json(body)},
                                       "Bearer " + keys_->agent_token(kNodeId.attempt));
    EXPECT_EQ(response.status, 200) << response.body;
    return parse_json(response.body).value();
  }
  static std::string heartbeat_target() {
    return api::target_of(api::kHeartbeat.path, {"demo", "1", "1", "0"});
  }
  // All of the node's ranks are in this state.
  Json heartbeat_of_ranks(std::string_view ranks_state, const Json& more = Json::object()) {
    Json body = {{"ranks", Json::array()}};
    for (int rank : {0, 1})
      body["ranks"].push_back({{"rank", rank}, {"local_rank", rank}, {"state", ranks_state}});
    body.update(more);
    return heartbeat("running", body);
  }
  static Json delivery(std::string bytes) {
    return {{"flight", {{"records", {{{"bytes", std::move(bytes)}, {"ended", true}}}}}}};
  }
  static Json log(std::int64_t sequence, int rank, std::string text) {
    return {{"sequence", sequence}, {"kind", "log"}, {"rank", rank}, {"text", std::move(text)}};
  }
  static std::vector<std::string> lines(const Json& page) {
    std::vector<std::string> texts;
    for (const Json& line : page["lines"]) texts.push_back(line["text"]);
    return texts;
  }

  Home home_;
  SystemClock clock_;
  MemoryStore store_;
  FakeEngine engine_;
  std::unique_ptr<Database> database_ = Database::in_memory().value();
  insight::Insight insight_{*database_};
  std::optional<Keys> keys_;
  std::unique_ptr<Controller> controller_;
  Loop loop_;
  std::unique_ptr<Server> server_;
  Url url_;
  std::string user_token_;
  std::thread thread_;
};

TEST_F(ServerTest, EveryRouteButHealthIsRefusedWithoutItsToken) {
  submit();
  const std::string agent = "Bearer " + keys_->agent_token(kNodeId.attempt);
  const std::string user = "Bearer " + user_token_;
  for (const api::Route* declared : api::kRoutes) {
    const api::Route& route = *declared;
    std::string target(route.path);
    for (auto [place, word] : {std::pair("{project}", "demo"), std::pair("{number}", "1"),
                               std::pair("{epoch}", "1"), std::pair("{index}", "0")})
      if (auto at = target.find(place); at != std::string::npos)
        target.replace(at, std::string_view(place).size(), word);
    const HttpCall plain{.method = std::string(route.method), .target = target};
    if (route.caller == api::Caller::anyone) {
      EXPECT_EQ(call(plain, std::nullopt).status, 200) << route.path;
      continue;
    }
    std::vector<std::optional<std::string>> wrong = {std::nullopt,
                                                     "",
                                                     "Bearer",
                                                     "Bearer ",
                                                     "Bearer " + std::string(64, '0'),
                                                     "Basic " + user_token_,
                                                     user_token_,
                                                     user + "0",
                                                     user.substr(0, user.size() - 1)};
    // Each kind of token opens its own routes only, and an attempt's its own attempt.
    wrong.push_back(route.caller == api::Caller::user ? agent : user);
    wrong.push_back("Bearer " + keys_->agent_token({kRunId, 2}));
    for (const auto& authorization : wrong) {
      const HttpResponse response = call(plain, authorization);
      EXPECT_EQ(response.status, 401) << route.path << " with " << authorization.value_or("none");
      EXPECT_EQ(api::error_of(response.status, response.body).code, Code::denied);
      EXPECT_EQ(response.headers.find("WWW-Authenticate"), "Bearer");
    }
  }
}

TEST_F(ServerTest, WhatItDoesNotKnowIsSaidAsJson) {
  EXPECT_EQ(ask("GET", "/api/v1/nothing").status, 404);
  EXPECT_EQ(ask("GET", "/").status, 404);
  EXPECT_EQ(ask("GET", "/api/v1/runs/demo/7").status, 404);
  EXPECT_EQ(ask("GET", "/api/v1/runs/demo/seven").status, 404);
  const HttpResponse wrong_method = ask("DELETE", "/api/v1/runs");
  EXPECT_EQ(wrong_method.status, 405);
  EXPECT_EQ(wrong_method.headers.find("Allow"), "POST, GET, HEAD");
  EXPECT_EQ(api::error_of(404, ask("GET", "/api/v1/runs/demo/7").body).message,
            "there is no run demo/7; `lockstep ps` lists them");
}

TEST_F(ServerTest, WrongQueriesAndBodiesAreRefusedByName) {
  submit();
  for (auto [target, name] :
       {std::pair("/api/v1/runs?sate=queued", "sate"),
        std::pair("/api/v1/runs?state=asleep", "asleep"),
        std::pair("/api/v1/runs?limit=0", "limit"), std::pair("/api/v1/runs?limit=x", "limit"),
        std::pair("/api/v1/runs/demo/1?wait=-1", "wait"),
        std::pair("/api/v1/runs/demo/1?wait=nan", "wait"),
        std::pair("/api/v1/runs/demo/1/logs?rank=-1", "rank"),
        std::pair("/api/v1/runs/demo/1/metrics?after_step=1e3", "after_step")}) {
    const HttpResponse response = ask("GET", target);
    EXPECT_EQ(response.status, 400) << target;
    EXPECT_THAT(response.body, HasSubstr(name)) << target;
  }
  for (std::string body : {"", "{", "[]", "{}", R"({"spec":{"command":[]}})",
                           R"({"spec":{"command":["a"],"nodes":"two"}})",
                           R"({"spec":{"command":["a"]},"spec":{"command":["b"]}})"})
    EXPECT_EQ(ask("POST", "/api/v1/runs", body).status, 400) << body;
  EXPECT_EQ(
      call({.method = "POST", .target = "/api/v1/runs", .body = "{}"}, "Bearer " + user_token_)
          .status,
      415);
}

TEST_F(ServerTest, ASubmittedRunIsSeenInFullAndInLists) {
  submit();
  const Json run = get("/api/v1/runs/demo/1");
  EXPECT_EQ(run["id"], "demo/1");
  EXPECT_EQ(run["state"], "starting");
  EXPECT_EQ(run["origin"]["user"], "ann");
  EXPECT_EQ(run["checkpoint_folder"], (home_.folder / "runs/demo/1/checkpoints").string());
  EXPECT_EQ(run["attempts"][0]["nodes"][0]["host"], "a");
  submit();
  const Json list = get("/api/v1/runs?project=demo&limit=1");
  ASSERT_EQ(list["runs"].size(), 1u);
  EXPECT_EQ(list["runs"][0]["id"], "demo/2");
  EXPECT_THAT(list["runs"][0]["attempts"], IsEmpty());
  EXPECT_EQ(get("/api/v1/runs?state=queued")["runs"].size(), 1u);
  EXPECT_EQ(get("/api/v1/runs?project=other")["runs"].size(), 0u);
}

TEST_F(ServerTest, ASubmissionMadeTwiceUnderOneIdAnswersTheSameRun) {
  const auto with = [](std::string_view command, std::string_view id) {
    return format(R"({{"spec":{{"project":"demo","command":["{}"],"working_folder":"/"}},)"
                  R"("request_id":"{}"}})",
                  command, id);
  };
  const std::string body = with("train", "1f0e-77");
  const HttpResponse first = ask("POST", "/api/v1/runs", body);
  ASSERT_EQ(first.status, 200) << first.body;
  EXPECT_EQ(parse_json(ask("POST", "/api/v1/runs", body).body)->at("id"), "demo/1");
  EXPECT_EQ(get("/api/v1/runs")["runs"].size(), 1u);
  const HttpResponse other = ask("POST", "/api/v1/runs", with("rest", "1f0e-77"));
  EXPECT_EQ(other.status, 400);
  EXPECT_THAT(other.body, HasSubstr("has submitted demo/1"));
  EXPECT_THAT(ask("POST", "/api/v1/runs", with("train", "no name")).body, HasSubstr("request_id"));
}

TEST_F(ServerTest, AListOfManyRunsTakesNoMoreQueriesThanOneOfARun) {
  const auto statements = [&] {
    const auto told = std::make_shared<std::promise<std::int64_t>>();
    loop_.post([this, told] { told->set_value(database_->statements_run()); });
    auto count = told->get_future();
    return count.wait_for(seconds(10)) == std::future_status::ready ? count.get() : -1;
  };
  submit();
  const auto begin = statements();
  get("/api/v1/runs?limit=1000");
  const auto of_one = statements() - begin;
  for (int i = 1; i < 30; ++i) submit();
  const auto before = statements();
  EXPECT_EQ(get("/api/v1/runs?limit=1000")["runs"].size(), 30u);
  EXPECT_EQ(statements() - before, of_one);
  EXPECT_LE(of_one, 2);
}

TEST_F(ServerTest, ValuesOfTheEnvironmentAreNotShown) {
  const HttpResponse response = ask(
      "POST", "/api/v1/runs",
      R"({"spec":{"project":"demo","command":["a"],"working_folder":"/","env":{"KEY":"s3cret"}}})");
  ASSERT_EQ(response.status, 200) << response.body;
  for (const std::string& body :
       {response.body, ask("GET", "/api/v1/runs").body, ask("GET", "/api/v1/runs/demo/1").body}) {
    EXPECT_THAT(body, HasSubstr(R"("env":{"KEY":"***"})"));
    EXPECT_THAT(body, testing::Not(HasSubstr("s3cret")));
  }
}

TEST_F(ServerTest, ARunThatWasCancelledIsResumed) {
  submit();
  EXPECT_EQ(ask("POST", "/api/v1/runs/demo/1/resume", "{}").status, 400) << "it has not ended";
  EXPECT_EQ(ask("POST", "/api/v1/runs/demo/2/resume", "{}").status, 404);
  submit();  // waits for the first
  EXPECT_EQ(ask("POST", "/api/v1/runs/demo/2/stop", "{}").status, 200);
  EXPECT_EQ(get("/api/v1/runs/demo/2")["state"], "cancelled");
  const HttpResponse resumed = ask("POST", "/api/v1/runs/demo/2/resume", "{}");
  ASSERT_EQ(resumed.status, 200) << resumed.body;
  EXPECT_EQ(parse_json(resumed.body)->at("state"), "queued");
}

TEST_F(ServerTest, ItProvesThatItKnowsTheTokens) {
  const std::string nonce = api::new_nonce();
  EXPECT_EQ(get("/health?nonce=" + nonce)["proof"],
            api::daemon_proof(user_token_, url_.port, nonce));
  EXPECT_EQ(get("/health?attempt=demo%2F1.1&nonce=" + nonce)["proof"],
            api::daemon_proof(keys_->agent_token(kNodeId.attempt), url_.port, nonce));
  EXPECT_TRUE(get("/health")["proof"].is_null());
  EXPECT_EQ(ask("GET", "/health?nonce=short").status, 400);
  EXPECT_EQ(ask("GET", "/health?attempt=x&nonce=" + nonce).status, 400);
}

TEST_F(ServerTest, ItDescribesItself) { EXPECT_EQ(get("/api/openapi.json"), api::openapi()); }

TEST_F(ServerTest, HeadIsGetWithoutTheBody) {
  const HttpResponse head = ask("HEAD", "/api/v1/version");
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.body, "");
}

TEST_F(ServerTest, ABodyIsTakenOnlyWhereOneIsWanted) {
  EXPECT_EQ(ask("GET", "/api/v1/version", "{}").status, 400);
  EXPECT_EQ(call({.method = "GET", .target = "/health", .body = "x"}, std::nullopt).status, 400);
}

TEST_F(ServerTest, WhatHttpRefusesHasTheFormOfAllRefusals) {
  const HttpResponse response = ask("GET", "/api/v1/%2e%2e");
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(response.content_type, "application/json");
  EXPECT_THAT(api::error_of(400, response.body).message, HasSubstr("'..'"));
}

TEST_F(ServerTest, VersionAndMapAreSaid) {
  EXPECT_EQ(get("/api/v1/version")["version"], "1.2.3");
  EXPECT_EQ(get("/api/v1/version")["pid"], ::getpid());
  EXPECT_EQ(get("/api/v1/version")["troubles"], Json({"oh"}));
  EXPECT_THAT(dump_json(get("/api/v1/map")), HasSubstr("10.0.0.1"));
}

TEST_F(ServerTest, AnAgentIsToldToStartAndItsItemsAreKeptOnce) {
  submit();
  const Json items = {{"items", {log(1, 0, "one\ntwo"), log(2, 1, "three")}}};
  const Json answer = heartbeat("ready", items);
  EXPECT_EQ(answer["command"], "start");
  EXPECT_EQ(answer["master_address"], "10.0.0.1");
  EXPECT_EQ(answer["rendezvous"], "10.0.0.1:1001");
  EXPECT_EQ(answer["acknowledged"], 2);
  EXPECT_EQ(heartbeat("ready", items)["acknowledged"], 2);
  const Json page = get("/api/v1/runs/demo/1/logs");
  EXPECT_THAT(lines(page), ElementsAre("one", "two", "three"));
  EXPECT_EQ(page["ended"], false);
  const std::string after = format("/api/v1/runs/demo/1/logs?after={}", page["next"].get<int>());
  EXPECT_THAT(lines(get(after)), IsEmpty());
  EXPECT_THAT(lines(get("/api/v1/runs/demo/1/logs?rank=1")), ElementsAre("three"));
  EXPECT_THAT(lines(get("/api/v1/runs/demo/1/logs?limit=1")), ElementsAre("one"));
  const Json tail = get("/api/v1/runs/demo/1/logs?tail=1&rank=0");
  EXPECT_THAT(lines(tail), ElementsAre("two"));
  EXPECT_EQ(tail["next"], page["next"]);
}

TEST_F(ServerTest, WhatRanksRecordedIsAskedOfTheirAgentAndKept) {
  submit();
  EXPECT_EQ(heartbeat_of_ranks("running")["flight_wanted"], false);
  const Json before = get("/api/v1/runs/demo/1/flight");
  EXPECT_TRUE(before["delivered"].is_null());
  EXPECT_EQ(before["host"], "a");
  EXPECT_THAT(before["records"], IsEmpty());

  EXPECT_EQ(heartbeat_of_ranks("running")["flight_wanted"], true);
  EXPECT_EQ(heartbeat_of_ranks("running", delivery("QUJD"))["flight_wanted"], false);
  const std::string after = "/api/v1/runs/demo/1/flight?wait=20&after=";
  const Json came = get(after + before["asked"].get<std::string>());
  EXPECT_FALSE(came["delivered"].is_null());
  ASSERT_EQ(came["records"].size(), 1u);
  EXPECT_EQ(came["records"][0]["bytes"], "QUJD");
  EXPECT_EQ(came["asked"], before["asked"]);
  EXPECT_EQ(ask("GET", "/api/v1/runs/demo/1/flight?node=1").status, 404);
  EXPECT_EQ(ask("GET", "/api/v1/runs/demo/2/flight").status, 404);
}

TEST_F(ServerTest, WhoAsksForRecordsIsAnsweredWhenTheyCome) {
  submit();
  heartbeat_of_ranks("running");
  // Held back, as agents' calls are, until somebody asks.
  std::thread agent([&] {
    const Json held = {{"known_command", "none"}, {"wait_seconds", 20}};
    if (heartbeat_of_ranks("running", held)["flight_wanted"] == true)
      heartbeat_of_ranks("running", delivery("QUJD"));
  });
  const Json came = get("/api/v1/runs/demo/1/flight?wait=20");
  agent.join();
  ASSERT_EQ(came["records"].size(), 1u);
  EXPECT_GE(came["delivered"].get<std::string>(), came["asked"].get<std::string>());
}

TEST_F(ServerTest, WhenAllRanksHaveEndedTheirRecordsAreWantedOnce) {
  submit();
  heartbeat_of_ranks("running");
  EXPECT_EQ(heartbeat_of_ranks("exited")["flight_wanted"], true);
  EXPECT_EQ(heartbeat_of_ranks("exited", delivery("QUJD"))["flight_wanted"], false);
  EXPECT_EQ(heartbeat_of_ranks("exited")["flight_wanted"], false);
  EXPECT_EQ(get("/api/v1/runs/demo/1/flight")["records"].size(), 1u);
  // A delivery without any takes nothing away.
  heartbeat_of_ranks("exited", {{"flight", {{"records", Json::array()}}}});
  EXPECT_EQ(get("/api/v1/runs/demo/1/flight")["records"].size(), 1u);
}

TEST_F(ServerTest, RecordsThatAreOnItsOwnMachineAreNotWantedAtTheEnd) {
  submit();
  heartbeat_of_ranks("running");
  const fs::path folder = home_.folder / "runs/demo/1/attempt-1/node-0/flight";
  ASSERT_TRUE(make_folders(folder));
  ASSERT_TRUE(write_file(folder / "rank-0.world.flight", "x"));
  EXPECT_EQ(heartbeat_of_ranks("exited")["flight_wanted"], false);
}

TEST_F(ServerTest, MetricsAndProgressAreSeenWithTheirRun) {
  submit();
  heartbeat("ready", {{"items",
                       {{{"sequence", 1},
                         {"kind", "metrics"},
                         {"step", 3},
                         {"values", {{"loss", 2.5}, {"gap", "NaN"}}}},
                        {{"sequence", 2}, {"kind", "progress"}, {"step", 3}, {"steps", 9}},
                        {{"sequence", 3}, {"kind", "checkpoint"}, {"step", 3}, {"text", "/c"}}}}});
  const Json run = get("/api/v1/runs/demo/1");
  EXPECT_EQ(run["latest"]["loss"], 2.5);
  EXPECT_EQ(run["progress"]["steps"], 9);
  EXPECT_EQ(run["checkpoints"][0]["path"], "/c");
  EXPECT_EQ(get("/api/v1/runs/demo/1/metrics?name=gap")["series"][0]["points"][0]["value"], "NaN");
  EXPECT_EQ(get("/api/v1/runs/demo/1/metrics?after_step=3")["series"].size(), 0u);
}

TEST_F(ServerTest, ABadHeartbeatIsRefusedByTheFieldAndTheNearestWord) {
  submit();
  const std::string token = "Bearer " + keys_->agent_token(kNodeId.attempt);
  const auto heartbeat_with = [](std::string_view fields) {
    return format(R"({{"node":"demo/1.1/0","state":"ready"{}}})", fields);
  };
  for (const auto& [body, named] :
       {std::pair(std::string(R"({"node":"demo/1.1/1","state":"ready"})"), "node: 'demo/1.1/1'"),
        std::pair(std::string(R"({"node":"demo/1.1/0","state":"reddy"})"),
                  "state: 'reddy' is none of allocated, ready, running, stopping, "
                  "released, lost, did you mean 'ready'?"),
        std::pair(heartbeat_with(R"(,"items":[{"kind":"metric"}])"),
                  "items[0].kind: 'metric' is none of log, metrics, progress, checkpoint, event, "
                  "did you mean 'metrics'?"),
        std::pair(heartbeat_with(R"(,"ranks":[{"state":"running"},{"state":"dead"}])"),
                  "ranks[1].state: 'dead' is none of running, exited, killed"),
        std::pair(heartbeat_with(R"(,"ranks":[{"state":"running","activity":"sleping"}])"),
                  "ranks[0].activity: 'sleping' is none of"),
        std::pair(heartbeat_with(R"(,"known_command":"halt")"),
                  "known_command: 'halt' is none of none, start, stop, leave")}) {
    const HttpResponse response = call({.method = "POST",
                                        .target = heartbeat_target(),
                                        .headers = {{"Content-Type", "application/json"}},
                                        .body = body},
                                       token);
    EXPECT_EQ(response.status, 400) << body;
    EXPECT_THAT(api::error_of(400, response.body).message, HasSubstr(named));
  }
}

TEST_F(ServerTest, AnAgentIsHeardWhoseLinesCannotBeStored) {
  submit();
  loop_.post([&] { EXPECT_TRUE(database_->execute("drop table log_chunks")); });
  Json body = {{"node", text(kNodeId)}, {"state", "ready"},        {"address", "10.0.0.1"},
               {"master_port", 1000},   {"rendezvous_port", 1001}, {"items", {log(1, 0, "one")}}};
  const HttpResponse response = call({.method = "POST",
                                      .target = heartbeat_target(),
                                      .headers = {{"Content-Type", "application/json"}},
                                      .body = dump_json(body)},
                                     "Bearer " + keys_->agent_token(kNodeId.attempt));
  EXPECT_GE(response.status, 500) << response.body;
  EXPECT_EQ(get("/api/v1/runs/demo/1")["attempts"][0]["nodes"][0]["state"], "ready");
}

TEST_F(ServerTest, TheQueueSaysWhoWaitsForWhomAndUntilWhen) {
  submit();
  submit();
  const Json queue = get("/api/v1/queue");
  ASSERT_EQ(queue["waiting"].size(), 1u);
  const Json& waits = queue["waiting"][0];
  EXPECT_EQ(waits["run"], "demo/2");
  EXPECT_EQ(waits["user"], "ann");
  EXPECT_EQ(waits["class"], "normal");
  EXPECT_EQ(waits["blocker"], "demo/1");
  ASSERT_EQ(queue["holding"].size(), 1u);
  EXPECT_EQ(queue["holding"][0]["hosts"], Json::array({"a"}));
  EXPECT_EQ(waits["expected_start"], queue["holding"][0]["expected_end"]);
  const Json run = get("/api/v1/runs/demo/2");
  EXPECT_EQ(run["blocker"], "demo/1");
  EXPECT_EQ(run["expected_start"], waits["expected_start"]);
  EXPECT_EQ(run["reason"], waits["reason"]);
}

TEST_F(ServerTest, APlanSubmitsNothing) {
  const std::string spec = R"({"spec":{"project":"demo","command":["train"],"devices":2}})";
  const Json plan = parse_json(ask("POST", "/api/v1/plan", spec).body).value();
  EXPECT_EQ(plan["starts"], true);
  EXPECT_EQ(plan["places"][0]["host"], "a");
  EXPECT_EQ(plan["places"][0]["devices"], Json::array({0, 1}));
  EXPECT_EQ(get("/api/v1/runs")["runs"].size(), 0u);
  submit();
  const Json waits = parse_json(ask("POST", "/api/v1/plan", spec).body).value();
  EXPECT_EQ(waits["starts"], false);
  EXPECT_EQ(waits["blocker"], "demo/1");
  EXPECT_EQ(get("/api/v1/runs")["runs"].size(), 1u);
}

TEST_F(ServerTest, WhatIsChangedOfARunIsAmongItsEvents) {
  submit();
  submit();
  EXPECT_EQ(ask("POST", "/api/v1/runs/demo/1/hold", "{}").status, 400) << "it does not wait";
  const auto held = ask("POST", "/api/v1/runs/demo/2/hold", R"({"by":"ann","reason":"later"})");
  ASSERT_EQ(held.status, 200) << held.body;
  EXPECT_EQ(parse_json(held.body).value()["held"], true);
  EXPECT_EQ(ask("POST", "/api/v1/runs/demo/2/priority", R"({"by":"bob","priority":3})").status,
            200);
  EXPECT_EQ(ask("POST", "/api/v1/runs/demo/2/priority", R"({"priority":101})").status, 400);
  EXPECT_EQ(ask("POST", "/api/v1/runs/demo/2/release", R"({"by":"bob"})").status, 200);
  const Json run = get("/api/v1/runs/demo/2");
  EXPECT_EQ(run["held"], false);
  EXPECT_EQ(run["priority"], 3);
  ASSERT_EQ(run["events"].size(), 3u);
  EXPECT_EQ(run["events"][0]["what"], "held: later");
  EXPECT_EQ(run["events"][1]["by"], "bob");
}

TEST_F(ServerTest, WhatHappenedToItsRanksIsAmongARunsEvents) {
  submit();
  const auto event = [](int sequence, const char* time, const char* words) {
    return Json{{"sequence", sequence}, {"kind", "event"}, {"time", time}, {"text", words}};
  };
  heartbeat("ready", {{"items",
                       {event(1, "2026-01-01T00:00:02Z", "ranks 0 and 1 go on"),
                        event(2, "2026-01-01T00:00:01Z", "rank 3 was killed by signal 9")}}});
  const Json events = get("/api/v1/runs/demo/1")["events"];
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0]["what"], "rank 3 was killed by signal 9");
  EXPECT_EQ(events[0]["by"], "");
  EXPECT_EQ(events[1]["what"], "ranks 0 and 1 go on");
}

TEST_F(ServerTest, HostsAndLimitsAreShownAndSet) {
  submit();
  const Json host = get("/api/v1/hosts")["hosts"][0];
  EXPECT_EQ(host["state"], "open");
  EXPECT_EQ(host["free"], 0);
  EXPECT_EQ(host["runs"], Json::array({"demo/1"}));
  const auto closed =
      ask("POST", "/api/v1/hosts", R"({"host":"a","state":"closed","by":"ann","reason":"loud"})");
  EXPECT_EQ(parse_json(closed.body).value()["hosts"][0]["reason"], "by ann: loud");
  EXPECT_EQ(ask("POST", "/api/v1/hosts", R"({"host":"z","state":"open"})").status, 404);
  EXPECT_THAT(get("/api/v1/limits")["limits"], IsEmpty());
  const auto limits =
      ask("POST", "/api/v1/limits", R"({"scope":"project","name":"demo","devices":4})");
  EXPECT_EQ(parse_json(limits.body).value()["limits"][0]["held"], 2);
  EXPECT_EQ(ask("POST", "/api/v1/limits", R"({"scope":"project","name":"demo"})").status, 200);
  EXPECT_THAT(get("/api/v1/limits")["limits"], IsEmpty());
}

TEST_F(ServerTest, ACallMayWaitForAChangeOfItsRun) {
  submit();
  const auto version = get("/api/v1/runs/demo/1")["version"].get<std::int64_t>();
  auto waiting = std::async(std::launch::async, [&] {
    return get(format("/api/v1/runs/demo/1?after_version={}&wait=20", version));
  });
  heartbeat("ready");
  EXPECT_GT(waiting.get()["version"].get<std::int64_t>(), version);
}

TEST_F(ServerTest, ACallMayWaitForLines) {
  submit();
  auto waiting =
      std::async(std::launch::async, [&] { return get("/api/v1/runs/demo/1/logs?wait=20"); });
  heartbeat("ready", {{"items", {log(1, 0, "hello")}}});
  EXPECT_THAT(lines(waiting.get()), ElementsAre("hello"));
}

TEST_F(ServerTest, AnAgentWaitsForACommandThatItDoesNotActOn) {
  submit();
  heartbeat("ready");
  auto waiting = std::async(std::launch::async, [&] {
    return heartbeat("ready", {{"known_command", "start"}, {"wait_seconds", 20}});
  });
  EXPECT_EQ(ask("POST", "/api/v1/runs/demo/1/stop", R"({"reason":"enough"})").status, 200);
  EXPECT_THAT(waiting.get()["command"], testing::AnyOf("stop", "leave"));
}

TEST_F(ServerTest, WithoutAChangeAWaitEndsWithItsPatience) {
  submit();
  const auto version = get("/api/v1/runs/demo/1")["version"].get<std::int64_t>();
  const Json run = get(format("/api/v1/runs/demo/1?after_version={}&wait=0.05", version));
  EXPECT_EQ(run["version"], version);
}

TEST_F(ServerTest, ItStopsListening) {
  std::promise<void> stopped;
  loop_.post([&] { server_->stop([&] { stopped.set_value(); }); });
  ASSERT_EQ(stopped.get_future().wait_for(seconds(10)), std::future_status::ready);
  EXPECT_EQ(HttpClient(url_).call({}, Deadline::after(seconds(10))).error().code,
            Code::unavailable);
}

TEST_F(ServerTest, AStoreThatFailsIsAnErrorAndNotARun) {
  loop_.post([&] { store_.fail_with(Error{Code::unavailable, "the disk is full"}); });
  const HttpResponse response =
      ask("POST", "/api/v1/runs", R"({"spec":{"command":["a"],"working_folder":"/"}})");
  EXPECT_EQ(response.status, 503);
  EXPECT_THAT(response.body, HasSubstr("the disk is full"));
  EXPECT_EQ(get("/api/v1/runs")["runs"].size(), 0u);
}

}  // namespace
}  // namespace lockstep

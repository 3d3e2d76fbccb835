// For tests of the server: called over HTTP, with a store in memory and an engine that only records
// calls.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"
#include "net/http/http_client.h"
#include "platform/api/paths.h"
#include "platform/api/routes.h"
#include "platform/insight/series/folder_series.h"
#include "platform/server/server.h"
#include "platform/store/database.h"
#include "platform/store/memory_history_for_test.h"
#include "platform/store/memory_store_for_test.h"
#include "text/json.h"

namespace lockstep::server {

class FakeEngine : public engine::Engine {
 public:
  std::string_view name() const override { return "fake"; }
  void submit(engine::Gang gang) override {
    for (const engine::NodePlacement& node : gang.nodes)
      nodes.push_back(engine::node_name(gang, node).id);
  }
  void kill(const model::NodeName& node) override { std::erase(nodes, node.id); }
  Result<engine::EngineList> list() override {
    engine::EngineList listed;
    for (const model::NodeId& node : nodes) listed.nodes.push_back({.node = {"", node}});
    for (const auto& [orphan, launch] : launches)
      listed.nodes.push_back(
          {.node = orphan,
           .record = std::make_shared<engine::LaunchRecord>(engine::launch_record(launch))});
    return listed;
  }

  std::vector<model::NodeId> nodes;
  std::map<model::NodeName, host::LaunchSpec> launches;  // of existing orphans
};

inline map::ClusterMap one_host() {
  map::ClusterMap map;
  map::Host& host = map.pods.emplace_back().leaves.emplace_back().hosts.emplace_back();
  host.id = "a";
  host.address = "10.0.0.1";
  map::Island& island = host.islands.emplace_back();
  for (int number : {0, 1}) island.devices.push_back({map::DeviceKind::gpu, number, {}, false});
  return map;
}

inline const model::RunId kRunId{"demo", 1};
inline const model::NodeId kNodeId{{kRunId, 1}, 0};

class ServerTest : public ::testing::Test {
 protected:
  explicit ServerTest(PageFiles page = {}) {
    keys_.emplace(host::Keys::open(home_.folder).value());
    controller_ = controller::Controller::open({.store = store_,
                                                .history = history_,
                                                .engine = engine_,
                                                .clock = clock_,
                                                .steady = steady_,
                                                .keys = *keys_,
                                                .map = one_host(),
                                                .home = home_.folder})
                      .value();
    server_ = Server::start(loop_, {.controller = *controller_,
                                    .insight = insight_,
                                    .keys = *keys_,
                                    .clock = clock_,
                                    .identities = store_,
                                    .budgets = store_,
                                    .notices = notices_,
                                    .database = *database_,
                                    .home = home_,
                                    .version = "1.2.3",
                                    .user = "ann",
                                    .problems = [] { return std::vector<std::string>{"oh"}; },
                                    .uploads = &uploads_,
                                    .streams = {.of_run = 2,
                                                .opening = std::chrono::seconds(2),
                                                .check_interval = std::chrono::milliseconds(50)},
                                    .page = page})
                  .value();
    url_ = net::parse_url(server_->url()).value();
    user_token_ = read_file(home_.token_file()).value();
    user_token_.pop_back();
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~ServerTest() override {
    loop_.stop();
    thread_.join();
  }

  net::HttpResponse call(net::HttpCall call, std::optional<std::string> authorization) {
    if (authorization) call.headers.add("Authorization", *authorization);
    return net::HttpClient(url_).call(call, Deadline::after(std::chrono::seconds(20))).value();
  }
  // With the user's token and all headers that a write needs.
  net::HttpResponse call_as_user(std::string method, std::string target, std::string body = "") {
    return call({.method = std::move(method),
                 .target = std::move(target),
                 .headers = {{"Content-Type", "application/json"}},
                 .body = std::move(body)},
                "Bearer " + user_token_);
  }
  Json get(std::string target) {
    const net::HttpResponse response = call_as_user("GET", std::move(target));
    EXPECT_EQ(response.status, 200) << response.body;
    return parse_json(response.body).value();
  }
  void submit() {
    const net::HttpResponse response =
        call_as_user("POST", "/api/v1/runs",
                     R"({"spec":{"project":"demo","name":"n","command":["train"],"devices":2,)"
                     R"("working_folder":"/"},"origin":{"user":"ann"}})");
    ASSERT_EQ(response.status, 200) << response.body;
  }
  Json heartbeat(std::string_view state, const Json& more = Json::object()) {
    Json body = {{"node", text(kNodeId)}, {"state", state},          {"address", "10.0.0.1"},
                 {"master_port", 1000},   {"rendezvous_port", 1001}, {"agent_pid", 7}};
    body.update(more);
    const net::HttpResponse response = call({.method = "POST",
                                             .target = heartbeat_target(),
                                             .headers = {{"Content-Type", "application/json"}},
                                             .body = dump_json(body)},
                                            "Bearer " + keys_->agent_token({"", kNodeId.attempt}));
    EXPECT_EQ(response.status, 200) << response.body;
    return parse_json(response.body).value();
  }
  static std::string heartbeat_target() {
    return api::target_of(api::kHeartbeat.path, {"demo", "1", "1", "0"});
  }
  // With all ranks of the node in this state.
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

  const TemporaryFolder folder_;
  const host::Home home_{folder_};
  SystemClock clock_;
  MonotonicClock steady_;
  store::MemoryStore store_;
  store::MemoryHistory history_;
  FakeEngine engine_;
  std::unique_ptr<store::Database> database_ = store::Database::in_memory().value();
  std::unique_ptr<insight::SeriesStore> series_ =
      insight::open_folder_series(home_.folder / "series").value();
  insight::Insight insight_{*database_, *series_};
  store::NoticeStore notices_{*database_};
  UploadStore uploads_{home_.folder, clock_};
  std::optional<host::Keys> keys_;
  std::unique_ptr<controller::Controller> controller_;
  net::Loop loop_;
  std::unique_ptr<Server> server_;
  net::Url url_;
  std::string user_token_;
  std::thread thread_;
};

}  // namespace lockstep::server

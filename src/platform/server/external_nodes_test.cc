// Agents of ranks that another launcher has started: they attach with the user's token, and call
// with their own from then on.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/server/server_for_test.h"
#include "text/json.h"

namespace lockstep::server {
namespace {

using testing::HasSubstr;

class ExternalNodesTest : public ServerTest {
 protected:
  static Json request(const std::string& incarnation) {
    return {
        {"job", "4ad1"},
        {"incarnation", incarnation},
        {"machine", "gpu7"},
        {"launcher", "srun (Slurm job 17)"},
        {"ranks", {{{"rank", 0}, {"local_rank", 0}, {"state", "running"}, {"pid", 12}}}},
        {"spec", {{"project", "demo"}, {"name", "bert"}, {"command", {"train"}}, {"devices", 2}}},
        {"origin", {{"user", "ann"}}}};
  }
  Json attach(const std::string& incarnation) {
    const net::HttpResponse response =
        call_as_user("POST", "/api/v1/external-nodes", dump_json(request(incarnation)));
    EXPECT_EQ(response.status, 200) << response.body;
    return parse_json(response.body).value();
  }
  Json call_as_agent(const std::string& token, const Json& more) {
    Json body = {{"node", "demo/1.1/0"}, {"state", "running"}, {"incarnation", "a1"}};
    body.update(more);
    const net::HttpResponse response = call({.method = "POST",
                                             .target = heartbeat_target(),
                                             .headers = {{"Content-Type", "application/json"}},
                                             .body = dump_json(body)},
                                            "Bearer " + token);
    EXPECT_EQ(response.status, 200) << response.body;
    return parse_json(response.body).value();
  }
};

TEST_F(ExternalNodesTest, AnAgentGetsANodeAndATokenForItsCalls) {
  const Json node = attach("a1");
  EXPECT_EQ(node["run"], "demo/1");
  EXPECT_EQ(node["node"], "demo/1.1/0");
  EXPECT_EQ(attach("a1"), node);
  const Json metrics = {
      {"items",
       {{{"sequence", 1}, {"kind", "metrics"}, {"step", 3}, {"values", {{"loss", 2.5}}}}}}};
  const Json answer = call_as_agent(node["token"], metrics);
  EXPECT_EQ(answer["acknowledged"], 1);
  EXPECT_EQ(answer["command"], "none");
  const Json run = get("/api/v1/runs/demo/1");
  EXPECT_EQ(run["state"], "running");
  EXPECT_EQ(run["launcher"], "srun (Slurm job 17)");
  EXPECT_EQ(run["latest"]["loss"], 2.5);
  EXPECT_EQ(run["checkpoint_folder"], "");
  EXPECT_EQ(run["attempts"][0]["engine"], "external");
  EXPECT_EQ(run["attempts"][0]["nodes"][0]["host"], "gpu7");
  const Json queue = get("/api/v1/queue");
  EXPECT_EQ(queue["waiting"].size(), 0u);
  EXPECT_EQ(queue["allocations"].size(), 0u);
  EXPECT_THAT(call_as_user("POST", "/api/v1/runs/demo/1/remove").body,
              HasSubstr("end it where srun (Slurm job 17) has started it"));
}

TEST_F(ExternalNodesTest, AWrongTokenAttachesNothing) {
  const net::HttpResponse response = call({.method = "POST",
                                           .target = "/api/v1/external-nodes",
                                           .headers = {{"Content-Type", "application/json"}},
                                           .body = dump_json(request("a1"))},
                                          "Bearer wrong");
  EXPECT_EQ(response.status, 401);
  EXPECT_EQ(get("/api/v1/runs")["runs"].size(), 0u);
}

TEST_F(ExternalNodesTest, TracesAndStopsAreRefusedWithTheNameOfTheLauncher) {
  attach("a1");
  const auto profile =
      call_as_user("POST", "/api/v1/runs/demo/1/profile", R"({"request_id":"1","steps":2})");
  EXPECT_EQ(profile.status, 400);
  EXPECT_THAT(profile.body, HasSubstr("started by srun (Slurm job 17)"));
  const auto stop = call_as_user("POST", "/api/v1/runs/demo/1/stop", "{}");
  EXPECT_EQ(stop.status, 400);
  EXPECT_THAT(stop.body, HasSubstr("started by srun (Slurm job 17)"));
}

TEST_F(ExternalNodesTest, AnUnknownFieldIsRefusedByItsName) {
  Json body = request("a1");
  body["speed"] = 3;
  const auto response = call_as_user("POST", "/api/v1/external-nodes", dump_json(body));
  EXPECT_EQ(response.status, 400);
  EXPECT_THAT(response.body, HasSubstr("speed"));
}

}  // namespace
}  // namespace lockstep::server

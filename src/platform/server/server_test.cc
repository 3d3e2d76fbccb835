// Access of any client to the server: tokens, paths, methods, queries and bodies; its own status;
// its shutdown.
#include "platform/server/server.h"

#include <future>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "net/http/http_client.h"
#include "platform/api/error.h"
#include "platform/api/openapi.h"
#include "platform/api/proof.h"
#include "platform/api/routes.h"
#include "platform/server/server_for_test.h"
#include "text/json.h"

namespace lockstep::server {
namespace {

using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;

TEST_F(ServerTest, EveryRouteButHealthAndLogInsIsRefusedWithoutItsToken) {
  submit();
  const std::string agent = "Bearer " + keys_->agent_token({"", kNodeId.attempt});
  const std::string user = "Bearer " + user_token_;
  for (const api::Route* declared : api::kRoutes) {
    const api::Route& route = *declared;
    std::string target(route.path);
    for (auto [place, word] : {std::pair("{project}", "demo"), std::pair("{number}", "1"),
                               std::pair("{epoch}", "1"), std::pair("{index}", "0")})
      if (auto at = target.find(place); at != std::string::npos)
        target.replace(at, std::string_view(place).size(), word);
    const net::HttpCall plain{.method = std::string(route.method), .target = target};
    if (route.caller == api::Caller::anyone) {
      // A log-in has its parts in its body, which is missing here.
      const int status = call(plain, std::nullopt).status;
      EXPECT_TRUE(route.method == "GET" ? status == 200 : status == 400 || status == 415)
          << route.path << ": " << status;
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
    // Each kind of token is valid for its own routes only, and an attempt's for its own attempt.
    wrong.push_back(route.caller == api::Caller::user ? agent : user);
    wrong.push_back("Bearer " + keys_->agent_token({"", {kRunId, 2}}));
    for (const auto& authorization : wrong) {
      const net::HttpResponse response = call(plain, authorization);
      EXPECT_EQ(response.status, 401) << route.path << " with " << authorization.value_or("none");
      EXPECT_EQ(api::error_of(response.status, response.body).code, Code::denied);
      EXPECT_EQ(response.headers.find("WWW-Authenticate"), "Bearer");
    }
  }
}

TEST_F(ServerTest, WhatItDoesNotKnowIsSaidAsJson) {
  EXPECT_EQ(call_as_user("GET", "/api/v1/nothing").status, 404);
  EXPECT_EQ(call_as_user("GET", "/").status, 404);
  EXPECT_EQ(call_as_user("GET", "/api/v1/runs/demo/7").status, 404);
  EXPECT_EQ(call_as_user("GET", "/api/v1/runs/demo/seven").status, 404);
  const net::HttpResponse wrong_method = call_as_user("DELETE", "/api/v1/runs");
  EXPECT_EQ(wrong_method.status, 405);
  EXPECT_EQ(wrong_method.headers.find("Allow"), "POST, GET, HEAD");
  EXPECT_THAT(api::error_of(404, call_as_user("GET", "/api/v1/runs/demo/7").body).message,
              AllOf(HasSubstr("demo/7"), HasSubstr("`lockstep ps`")));
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
    const net::HttpResponse response = call_as_user("GET", target);
    EXPECT_EQ(response.status, 400) << target;
    EXPECT_THAT(response.body, HasSubstr(name)) << target;
  }
  for (std::string body : {"", "{", "[]", "{}", R"({"spec":{"command":[]}})",
                           R"({"spec":{"command":["a"],"nodes":"two"}})",
                           R"({"spec":{"command":["a"]},"spec":{"command":["b"]}})"})
    EXPECT_EQ(call_as_user("POST", "/api/v1/runs", body).status, 400) << body;
  EXPECT_EQ(
      call({.method = "POST", .target = "/api/v1/runs", .body = "{}"}, "Bearer " + user_token_)
          .status,
      415);
}

TEST_F(ServerTest, ItProvesThatItKnowsTheTokens) {
  const std::string nonce = api::new_nonce();
  EXPECT_EQ(get("/health?nonce=" + nonce)["proof"],
            api::daemon_proof(user_token_, url_.port, nonce));
  EXPECT_EQ(get("/health?attempt=demo%2F1.1&nonce=" + nonce)["proof"],
            api::daemon_proof(keys_->agent_token({"", kNodeId.attempt}), url_.port, nonce));
  EXPECT_TRUE(get("/health")["proof"].is_null());
  EXPECT_EQ(call_as_user("GET", "/health?nonce=short").status, 400);
  EXPECT_EQ(call_as_user("GET", "/health?attempt=x&nonce=" + nonce).status, 400);
}

TEST_F(ServerTest, ItDescribesItself) { EXPECT_EQ(get("/api/openapi.json"), api::openapi()); }

TEST_F(ServerTest, HeadIsGetWithoutTheBody) {
  const net::HttpResponse head = call_as_user("HEAD", "/api/v1/version");
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.body, "");
}

TEST_F(ServerTest, ABodyIsTakenOnlyWhereOneIsWanted) {
  EXPECT_EQ(call_as_user("GET", "/api/v1/version", "{}").status, 400);
  EXPECT_EQ(call({.method = "GET", .target = "/health", .body = "x"}, std::nullopt).status, 400);
}

TEST_F(ServerTest, WhatHttpRefusesHasTheFormOfAllRefusals) {
  const net::HttpResponse response = call_as_user("GET", "/api/v1/%2e%2e");
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(response.content_type, "application/json");
  EXPECT_THAT(api::error_of(400, response.body).message, HasSubstr("'..'"));
}

TEST_F(ServerTest, VersionAndMapAreSaid) {
  EXPECT_EQ(get("/api/v1/version")["version"], "1.2.3");
  EXPECT_EQ(get("/api/v1/version")["pid"], ::getpid());
  EXPECT_EQ(get("/api/v1/version")["problems"], Json({"oh"}));
  submit();
  for (const char* shown : {"/api/v1/runs", "/api/v1/queue", "/api/v1/runs/demo/1"})
    EXPECT_EQ(get(shown)["problems"], Json({"oh"})) << shown;
  EXPECT_EQ(get("/api/v1/runs")["runs"][0]["problems"], Json::array());
  EXPECT_THAT(dump_json(get("/api/v1/map")), HasSubstr("10.0.0.1"));
}

TEST_F(ServerTest, ItStopsListening) {
  std::promise<void> stopped;
  loop_.post([&] { server_->stop([&] { stopped.set_value(); }); });
  ASSERT_EQ(stopped.get_future().wait_for(seconds(10)), std::future_status::ready);
  EXPECT_EQ(net::HttpClient(url_).call({}, Deadline::after(seconds(10))).error().code,
            Code::unavailable);
}

}  // namespace
}  // namespace lockstep::server

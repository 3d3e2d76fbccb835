#include "platform/engine/k8s/client/curl_api_server.h"

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"
#include "net/http/scripted_server_for_test.h"

namespace lockstep::engine {
namespace {

using namespace std::chrono_literals;
using net::json_answer;
using net::ScriptedServer;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr auto kPods = "/api/v1/namespaces/ml/pods";
constexpr auto kStream = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n";

class CurlApi : public testing::Test {
 protected:
  ClusterAccess access(const ScriptedServer& server) {
    ClusterAccess access;
    access.server = server.url();
    access.token.text = "secret-token";
    access.source = "a test";
    return access;
  }
  std::unique_ptr<CurlApiServer> open(ClusterAccess access) {
    return *CurlApiServer::open(std::move(access), clock_);
  }
  // The types of the events of a watch, and its end.
  std::pair<std::vector<std::string>, ApiReply> watch(CurlApiServer& api, Duration idle = 20s) {
    std::vector<std::string> types;
    ApiReply end = api.watch(kPods, idle, [&](const Json& event) {
      types.push_back(event["type"]);
      return types.back() != "LAST";
    });
    return {types, end};
  }

  const SystemClock clock_;
};

TEST_F(CurlApi, SendsTheTokenAndReadsAnObject) {
  ScriptedServer server({json_answer(200, R"({"kind":"PodList"})"), json_answer(201, "{}")});
  const auto api = open(access(server));
  const ApiReply list = api->get(std::string(kPods) + "?labelSelector=a%3Db");
  EXPECT_TRUE(list.ok()) << list.error;
  EXPECT_EQ(list.object["kind"], "PodList");
  EXPECT_EQ(api->create(kPods, {{"kind", "Pod"}}).status, 201);
  const auto requests = server.requests();
  EXPECT_THAT(requests[0], AllOf(StartsWith("GET /api/v1/namespaces/ml/pods?labelSelector=a%3Db "),
                                 HasSubstr("Authorization: Bearer secret-token\r\n")));
  EXPECT_THAT(requests[1], AllOf(StartsWith("POST "), HasSubstr("\r\n\r\n{\"kind\":\"Pod\"}")));
}

TEST_F(CurlApi, ActsAsAnotherUser) {
  ScriptedServer server({json_answer(200, "{}")});
  ClusterAccess as_other = access(server);
  as_other.impersonation = {{"Impersonate-User", "ann"}, {"Impersonate-Group", "ml"}};
  EXPECT_EQ(open(as_other)->get(kPods).status, 200);
  EXPECT_THAT(server.requests()[0], AllOf(HasSubstr("Impersonate-User: ann\r\n"),
                                          HasSubstr("Impersonate-Group: ml\r\n")));
}

TEST_F(CurlApi, ARefusalHasTheWordsOfTheServerAndNoSecret) {
  ScriptedServer server({json_answer(
      403, R"({"kind":"Status","reason":"Forbidden","message":"pods is forbidden"})")});
  const ApiReply reply = open(access(server))->get(std::string(kPods) + "?limit=1");
  EXPECT_EQ(reply.status, 403);
  EXPECT_EQ(reply.error,
            "the API server at " + server.url() +
                " refused GET /api/v1/namespaces/ml/pods for a test: 403 Forbidden: pods is "
                "forbidden");
}

TEST_F(CurlApi, RetryAfterIsADuration) {
  ScriptedServer server({json_answer(429, "{}", "Retry-After: 7\r\n")});
  EXPECT_EQ(open(access(server))->remove(kPods, Json::object()).retry_after, Duration(7s));
}

TEST_F(CurlApi, ATokenThatIsRefusedIsReadAgainFromItsFileOnce) {
  const TemporaryFolder folder;
  ScriptedServer server({json_answer(200, "{}"), json_answer(401, "{}"), json_answer(200, "{}"),
                         json_answer(401, "{}"), json_answer(401, "{}")});
  ClusterAccess with_file = access(server);
  with_file.token.file = folder / "token";
  ASSERT_TRUE(write_file(with_file.token.file, "old\n"));
  const auto api = open(with_file);
  EXPECT_EQ(api->get(kPods).status, 200);
  ASSERT_TRUE(write_file(with_file.token.file, "new\n"));
  EXPECT_EQ(api->get(kPods).status, 200);
  EXPECT_EQ(api->get(kPods).status, 401);
  const auto requests = server.requests();
  ASSERT_EQ(requests.size(), 5u);
  EXPECT_THAT(requests[1], HasSubstr("Bearer old\r\n"));
  EXPECT_THAT(requests[2], HasSubstr("Bearer new\r\n"));
}

TEST_F(CurlApi, ATokenWithALineBreakIsNotSent) {
  ScriptedServer server({});
  ClusterAccess broken = access(server);
  broken.token.text = "secret\r\nX-Other: 1";
  const ApiReply reply = open(broken)->get(kPods);
  EXPECT_EQ(reply.status, 0);
  EXPECT_THAT(reply.error, AllOf(HasSubstr("line break"), Not(HasSubstr("secret"))));
}

TEST_F(CurlApi, AServerThatDoesNotListenIsNamed) {
  ClusterAccess nowhere;
  {
    const auto listener = net::Listener::tcp("127.0.0.1", 0);
    nowhere.server = format("http://127.0.0.1:{}", listener->port());
  }
  const ApiReply reply = open(nowhere)->get("/version");
  EXPECT_EQ(reply.status, 0);
  EXPECT_THAT(reply.error, StartsWith("GET /version at " + nowhere.server + " has failed: "));
}

TEST_F(CurlApi, AWatchGivesEachEventUntilTheServerEndsIt) {
  ScriptedServer server(
      {{std::string(kStream) + "{\"type\":\"ADDED\"}\n{\"type\":\"BOOK" + "MARK\"}\n"}});
  const auto [types, end] = watch(*open(access(server)));
  EXPECT_EQ(types, (std::vector<std::string>{"ADDED", "BOOKMARK"}));
  EXPECT_TRUE(end.ok()) << end.error;
}

TEST_F(CurlApi, AWatchEndsWhenItsReaderHasEnough) {
  ScriptedServer server(
      {{std::string(kStream) + "{\"type\":\"LAST\"}\n{\"type\":\"ADDED\"}\n", true}});
  const auto [types, end] = watch(*open(access(server)));
  EXPECT_EQ(types, (std::vector<std::string>{"LAST"}));
  EXPECT_TRUE(end.ok()) << end.error;
}

TEST_F(CurlApi, ASilentWatchEndsAfterItsIdleTime) {
  ScriptedServer server({{std::string(kStream) + "{\"type\":\"ADDED\"}\n", true}});
  const auto [types, end] = watch(*open(access(server)), 50ms);
  EXPECT_EQ(types.size(), 1u);
  EXPECT_EQ(end.status, 0);
  EXPECT_THAT(end.error, HasSubstr("no byte came for 50ms"));
}

TEST_F(CurlApi, AWatchThatIsCutHasNoStatus) {
  ScriptedServer server(
      {{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        "11\r\n{\"type\":\"ADDED\"}\n\r\n4\r\nhal"}});
  const auto [types, end] = watch(*open(access(server)));
  EXPECT_EQ(types.size(), 1u);
  EXPECT_EQ(end.status, 0);
}

TEST_F(CurlApi, ARefusedWatchGivesTheStatus) {
  ScriptedServer server({json_answer(410, R"({"kind":"Status","reason":"Expired"})")});
  const auto [types, end] = watch(*open(access(server)));
  EXPECT_TRUE(types.empty());
  EXPECT_EQ(end.status, 410);
  EXPECT_THAT(end.error, HasSubstr("410 Expired"));
}

TEST_F(CurlApi, StopEndsAWatchThatRunsAndEachLaterOne) {
  ScriptedServer server({{std::string(kStream) + "{\"type\":\"ADDED\"}\n", true}});
  const auto api = open(access(server));
  std::thread stopper;
  const ApiReply end = api->watch(kPods, 20s, [&](const Json&) {
    stopper = std::thread([&] { api->stop(); });
    return true;
  });
  stopper.join();
  EXPECT_TRUE(end.ok()) << end.error;
  EXPECT_FALSE(watch(*api).second.ok());
}

}  // namespace
}  // namespace lockstep::engine

// Byte streams through the server: a client, and an agent that the test plays.
#include <future>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "base/check.h"
#include "base/clock.h"
#include "net/stream/relay.h"
#include "platform/api/error.h"
#include "platform/server/server_for_test.h"

namespace lockstep::server {
namespace {

using testing::HasSubstr;

constexpr auto kNodeStreams = "/api/v1/runs/demo/1/nodes/";

// The answer, and the connection after a 101.
struct Opened {
  int status = 0;
  std::string message{};
  std::optional<net::UpgradedConnection> connection{};
};

// A stream's end for the test: its relay, and a socket.
class TestEnd {
 public:
  explicit TestEnd(net::UpgradedConnection connection) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    own_ = Fd(ends[0]);
    result_ =
        std::async(std::launch::async, [connection = std::move(connection), local = Fd(ends[1]),
                                        stop = stop_.get_token()]() mutable {
          return net::relay(std::move(connection), std::move(local), stop);
        });
  }
  TestEnd(TestEnd&&) = default;
  TestEnd& operator=(TestEnd&&) = default;
  ~TestEnd() {
    if (result_.valid()) stop_.request_stop();
  }
  void send(std::string_view bytes) { EXPECT_TRUE(write_all(own_.get(), bytes)); }
  std::string read(std::size_t size) {
    std::string bytes(size, '\0');
    EXPECT_EQ(::recv(own_.get(), bytes.data(), size, MSG_WAITALL), static_cast<ssize_t>(size));
    return bytes;
  }
  // Until the stream has ended.
  Code end() {
    const auto result = result_.get();
    return result ? Code::cancelled : result.error().code;
  }

 private:
  Fd own_;
  std::stop_source stop_;
  std::future<Result<void>> result_;
};

class StreamsTest : public ServerTest {
 protected:
  Opened open(const std::string& target, const std::string& token,
              net::Headers headers = net::upgrade_headers(api::kStreamProtocol)) {
    headers.add("Authorization", "Bearer " + token);
    net::HttpClient client(url_);
    const auto answer = client.call({.target = target, .headers = std::move(headers)},
                                    Deadline::after(std::chrono::seconds(20)));
    if (!answer) return {.message = answer.error().message};
    if (answer->status == 101) return {.status = 101, .connection = client.take_connection()};
    return {answer->status, api::error_of(answer->status, answer->body).message};
  }
  Opened open_as_user(const std::string& rest) { return open(kNodeStreams + rest, user_token_); }
  std::future<Opened> open_later(const std::string& rest, const std::string& token) {
    return std::async(std::launch::async,
                      [this, rest, token] { return open(kNodeStreams + rest, token); });
  }
  std::string agent_token() { return keys_->agent_token({"", kNodeId.attempt}); }
  // The agent calls until it has an order, and opens the stream.
  Opened agent_opens() {
    const Deadline patience = Deadline::after(std::chrono::seconds(20));
    Json streams;
    while (streams.empty()) {
      if (patience.passed()) return {.message = "no order"};
      streams =
          heartbeat_of_ranks(
              "running", {{"known_command", "start"}, {"wait_seconds", 1}, {"incarnation", "x"}})
              .value("streams", Json::array());
    }
    last_order_ = streams[0];
    return open(api::target_of(api::kNodeStream.path,
                               {"demo", "1", "1", "0", last_order_["id"].get<std::string>()}),
                agent_token());
  }
  void start_run() {
    submit();
    heartbeat("ready", {{"incarnation", "x"}});
    heartbeat_of_ranks("running", {{"incarnation", "x"}});
  }
  std::pair<TestEnd, TestEnd> stream(const std::string& token) {
    auto client = open_later("0/stream?port=8888", token);
    Opened agent = agent_opens();
    EXPECT_EQ(agent.status, 101) << agent.message;
    Opened opened = client.get();
    EXPECT_EQ(opened.status, 101) << opened.message;
    LS_CHECK(agent.connection && opened.connection, "the stream did not begin");
    return {TestEnd(*std::move(opened.connection)), TestEnd(*std::move(agent.connection))};
  }

  Json last_order_;
};

TEST_F(StreamsTest, AClientAndAnAgentAreJoined) {
  start_run();
  auto [client, agent] = stream(user_token_);
  EXPECT_EQ(last_order_["port"], 8888);
  EXPECT_FALSE(last_order_.value("shell", false));
  client.send("question");
  EXPECT_EQ(agent.read(8), "question");
  agent.send("answer");
  EXPECT_EQ(client.read(6), "answer");
  const Json audit = get("/api/v1/audit");
  EXPECT_EQ(audit["records"][0]["action"], "run.stream");
  EXPECT_EQ(audit["records"][0]["target"], "demo/1.1/0");
  EXPECT_EQ(audit["records"][0]["after"], "port 8888");
}

TEST_F(StreamsTest, RequestsThatCannotBeStreamsAreRefused) {
  submit();
  EXPECT_THAT(open_as_user("0/stream?port=8888").message, HasSubstr("does not run yet"));
  heartbeat("ready");
  heartbeat_of_ranks("running");
  EXPECT_EQ(open_as_user("1/stream?port=8888").status, 404);
  EXPECT_THAT(open_as_user("0/stream").message, HasSubstr("either a port, or shell=true"));
  EXPECT_THAT(open_as_user("0/stream?port=1&shell=true").message, HasSubstr("either a port"));
  EXPECT_EQ(open_as_user("0/stream?port=65536").status, 400);
  const Opened plain = open(std::string(kNodeStreams) + "0/stream?port=8888", user_token_, {});
  EXPECT_THAT(plain.message, HasSubstr("Upgrade: lockstep-stream"));
  EXPECT_EQ(open(std::string(kNodeStreams) + "0/stream?port=1", "no token").status, 401);
}

TEST_F(StreamsTest, AnAgentThatDoesNotCallIsReportedInTime) {
  start_run();
  const Opened opened = open_as_user("0/stream?shell=true");
  EXPECT_EQ(opened.status, 503);
  EXPECT_THAT(opened.message, HasSubstr("the agent of demo/1.1/0 did not open the stream"));
}

TEST_F(StreamsTest, ARunHasALimitOfOpenStreams) {
  start_run();
  auto [one, agent_of_one] = stream(user_token_);
  auto [two, agent_of_two] = stream(user_token_);
  EXPECT_THAT(open_as_user("0/stream?port=8888").message, HasSubstr("the most of a run"));
}

TEST_F(StreamsTest, AStreamEndsAfterItsTokenWasRevoked) {
  start_run();
  const auto made = call_as_user("POST", "/api/v1/tokens", R"({"name":"laptop"})");
  const std::string token = parse_json(made.body).value()["token"];
  auto [client, agent] = stream(token);
  const Json tokens = get("/api/v1/tokens");
  const std::string id = tokens["tokens"][0]["id"];
  EXPECT_EQ(call_as_user("POST", "/api/v1/tokens/" + id + "/revoke").status, 200);
  EXPECT_EQ(client.end(), Code::unavailable);
}

}  // namespace
}  // namespace lockstep::server

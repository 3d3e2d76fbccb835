// The client against a server that answers as the test says and notes what it heard.
#include "platform/client/client.h"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/fd.h"
#include "net/http_server.h"
#include "net/loop.h"
#include "text/convert.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ClientTest : public ::testing::Test {
 protected:
  ClientTest() {
    std::string pattern = (fs::temp_directory_path() / "client-XXXXXX").string();
    home_.folder = ::mkdtemp(pattern.data());
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~ClientTest() override {
    loop_.stop();
    thread_.join();
    fs::remove_all(home_.folder);
  }

  Client client() { return Client(server_.url(), "t0ken"); }
  void answer(Json json) {
    answer_ = {.content_type = "application/json", .body = dump_json(json)};
  }

  Home home_;
  HttpResponse answer_{.body = "{}"};
  HttpRequest heard_;  // the last one; read after its answer came
  Loop loop_;
  HttpServer server_ =
      HttpServer::start(loop_, {}, [this](HttpRequest request, Responder responder) {
        heard_ = std::move(request);
        responder.send(answer_);
      }).value();
  std::thread thread_;
};

TEST_F(ClientTest, OpensTheDaemonOfAHomeAndShowsItsToken) {
  ASSERT_TRUE(write_daemon_file(home_.daemon_file(), {server_.url(), 1, "1"}));
  ASSERT_TRUE(write_file(home_.token_file(), "secret\n"));
  auto client = Client::open(home_);
  ASSERT_TRUE(client) << client.error().message;
  EXPECT_EQ(heard_.target, "/health");
  EXPECT_FALSE(heard_.headers.find("Authorization")) << "it may not be our daemon";
  answer(to_json(api::Version{.version = "1.2.3", .home = "/h", .pid = 7}));
  EXPECT_EQ(client->version()->version, "1.2.3");
  EXPECT_EQ(heard_.headers.find("Authorization"), "Bearer secret");
}

TEST_F(ClientTest, WithoutADaemonOpeningSaysSo) {
  EXPECT_EQ(Client::open(home_).error().code, Code::unavailable);
  ASSERT_TRUE(write_daemon_file(home_.daemon_file(), {"http://127.0.0.1:1", 1, "1"}));
  ASSERT_TRUE(write_file(home_.token_file(), "secret\n"));
  EXPECT_EQ(Client::open(home_).error().code, Code::unavailable);
}

TEST_F(ClientTest, AStrangerAtTheAddressOfADaemonThatDiedCountsAsNoDaemon) {
  ASSERT_TRUE(write_daemon_file(home_.daemon_file(), {server_.url(), 1, "1"}));
  ASSERT_TRUE(write_file(home_.token_file(), "secret\n"));
  answer_ = {.status = 404, .body = "<html>"};
  EXPECT_EQ(Client::open(home_).error().code, Code::unavailable);
}

TEST_F(ClientTest, CallsGoToTheirRoutesWithTheirQueries) {
  answer(to_json(api::LogPage{}));
  ASSERT_TRUE(client().logs({"demo", 42}, {.after = 3, .rank = 1, .tail = {}}));
  EXPECT_THAT(heard_.target, HasSubstr("/api/v1/runs/demo/42/logs?after=3&"));
  EXPECT_EQ(heard_.query["rank"], "1");
  answer(to_json(api::RunView{}));
  api::SubmitRequest request;
  request.spec.command = {"a b"};
  ASSERT_TRUE(client().submit(request));
  EXPECT_EQ(heard_.method, "POST");
  EXPECT_EQ(heard_.headers.find("Content-Type"), "application/json");
  EXPECT_THAT(heard_.body, HasSubstr(R"(["a b"])"));
}

TEST_F(ClientTest, AHeartbeatNamesItsNodeInThePath) {
  answer({{"command", "start"}, {"acknowledged", 5}});
  api::Heartbeat heartbeat;
  heartbeat.node = "demo/42.2/1";
  EXPECT_EQ(client().heartbeat(heartbeat, Deadline::after(std::chrono::seconds(5)))->acknowledged,
            5);
  EXPECT_EQ(heard_.target, "/api/v1/runs/demo/42/attempts/2/nodes/1/heartbeat");
  heartbeat.node = "nonsense";
  EXPECT_EQ(client().heartbeat(heartbeat, Deadline::after(std::chrono::seconds(5))).error().code,
            Code::invalid);
}

TEST_F(ClientTest, ErrorsAreThoseOfTheDaemon) {
  answer_ = {.status = 404, .body = R"({"error":{"code":"not_found","message":"no run"}})"};
  EXPECT_EQ(client().run({"demo", 1}).error().message, "no run");
  EXPECT_EQ(client().run({"demo", 1}).error().code, Code::not_found);
  answer_ = {.status = 502, .body = "<html>"};
  EXPECT_EQ(client().run({"demo", 1}).error().code, Code::unavailable);
}

TEST_F(ClientTest, AnAnswerThatIsNotOursIsAnError) {
  answer_ = {.body = "<html>"};
  EXPECT_FALSE(client().runs({}));
  answer_ = {.body = R"({"runs":3})"};
  EXPECT_THAT(client().runs({}).error().message, HasSubstr("runs"));
}

}  // namespace
}  // namespace lockstep

// The client against a server that answers as the test specifies and records the calls.
#include "platform/client/client.h"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"
#include "net/http/http_server.h"
#include "net/loop.h"
#include "net/socket.h"
#include "platform/api/proof.h"
#include "text/convert.h"

namespace lockstep::client {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ClientTest : public ::testing::Test {
 protected:
  ClientTest() {
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~ClientTest() override {
    loop_.stop();
    thread_.join();
  }

  Client client() { return Client(server_.url(), token_); }
  net::HttpResponse proof(const std::string& nonce) const {
    Json health = to_json(api::Health{.proof = api::daemon_proof(token_, server_.port(), nonce)});
    health.update(says_more_);
    return {.content_type = "application/json", .body = dump_json(health)};
  }
  net::HttpResponse next_answer() {
    bodies_.push_back(heard_.body);
    return refusals_-- > 0 ? net::HttpResponse{.status = 503} : answer_;
  }
  void answer(Json json) {
    answer_ = {.content_type = "application/json", .body = dump_json(json)};
  }

  const TemporaryFolder folder_;
  const host::Home home_{folder_};
  std::string token_ = "t0ken";
  bool knows_token_ = true;
  Json says_more_ = Json::object();  // if it proves itself
  net::HttpResponse answer_{.body = "{}"};
  int refusals_ = 0;                 // so many calls get 503 first
  net::HttpRequest heard_;           // the last request; read after its answer came
  std::vector<std::string> bodies_;  // of all calls except greetings
  net::Loop loop_;
  net::HttpServer server_ =
      net::HttpServer::start(loop_, {}, [this](net::HttpRequest request, net::Responder responder) {
        heard_ = std::move(request);
        const auto nonce = heard_.query.find("nonce");
        const bool greets = nonce != heard_.query.end() && knows_token_;
        responder.send(greets ? proof(nonce->second) : next_answer());
      }).value();
  std::thread thread_;
};

TEST_F(ClientTest, OpensTheDaemonOfAHomeAndShowsItsToken) {
  ASSERT_TRUE(host::write_daemon_file(home_.daemon_file(), {server_.url(), 1, "1"}));
  ASSERT_TRUE(write_file(home_.token_file(), token_ + "\n"));
  answer(to_json(api::Health{}));
  auto client = Client::open(home_);
  ASSERT_TRUE(client) << client.error().message;
  EXPECT_EQ(heard_.target, "/health");
  EXPECT_FALSE(heard_.headers.find("Authorization")) << "it may not be our daemon";
  answer(to_json(api::Version{.version = "1.2.3", .home = "/h", .pid = 7}));
  EXPECT_EQ(client->call(api::kVersion)->version, "1.2.3");
  EXPECT_EQ(heard_.headers.find("Authorization"), "Bearer t0ken");
}

// Listens and never answers, as a daemon that was stopped by SIGSTOP.
TEST_F(ClientTest, ALateAnswerIsToldOfAndWhatWasNotSentIsKnown) {
  auto silent = net::Listener::tcp("127.0.0.1", 0).value();
  const auto url = format("http://127.0.0.1:{}", silent.port());
  ASSERT_TRUE(host::write_daemon_file(home_.daemon_file(), {url, 4711, "1"}));
  ASSERT_TRUE(write_file(home_.token_file(), token_ + "\n"));
  std::vector<std::optional<LateAnswer>> told;
  const auto opened = Client::open(home_, [&](const std::optional<LateAnswer>& late) {
    told.push_back(late);
    if (told.size() == 1) silent = net::Listener::tcp("127.0.0.1", 0).value();  // gives up
  });
  EXPECT_FALSE(opened);
  ASSERT_GE(told.size(), 2u);
  EXPECT_EQ(told.front()->url, url);
  EXPECT_GE(told.front()->waited, std::chrono::seconds(1));
  EXPECT_FALSE(told.back()) << "the wait is over";
}

TEST_F(ClientTest, AChangeThatWasNotSentChangedNothingAndOneWithoutAnswerMayHave) {
  Client nobody("http://127.0.0.1:1", token_);
  EXPECT_THAT(nobody.call(api::kStop, {.path = model::RunId{"demo", 1}}).error().message,
              HasSubstr("nothing was changed"));
  EXPECT_FALSE(nobody.submit({}));
  EXPECT_FALSE(nobody.was_sent());
}

TEST_F(ClientTest, WithoutADaemonOpeningSaysSo) {
  EXPECT_EQ(Client::open(home_).error().code, Code::unavailable);
  ASSERT_TRUE(host::write_daemon_file(home_.daemon_file(), {"http://127.0.0.1:1", 1, "1"}));
  ASSERT_TRUE(write_file(home_.token_file(), token_ + "\n"));
  EXPECT_EQ(Client::open(home_).error().code, Code::unavailable);
}

TEST_F(ClientTest, AStrangerAtTheAddressOfADaemonThatDiedCountsAsNoDaemon) {
  ASSERT_TRUE(host::write_daemon_file(home_.daemon_file(), {server_.url(), 1, "1"}));
  ASSERT_TRUE(write_file(home_.token_file(), token_ + "\n"));
  knows_token_ = false;
  for (const net::HttpResponse& stranger :
       {net::HttpResponse{.status = 404, .body = "<html>"},
        net::HttpResponse{.body = R"({"status":"ok"})"},
        net::HttpResponse{.body = R"({"status":"ok","proof":"00"})"}}) {
    answer_ = stranger;
    EXPECT_EQ(Client::open(home_).error().code, Code::unavailable);
  }
}

TEST_F(ClientTest, AStrangerNeverHearsTheToken) {
  knows_token_ = false;
  answer(to_json(api::Health{}));
  EXPECT_THAT(client().call(api::kVersion).error().message, HasSubstr("not the daemon"));
  EXPECT_EQ(heard_.path, (std::vector<std::string>{"health"}));
  EXPECT_FALSE(heard_.headers.find("Authorization"));
}

TEST_F(ClientTest, AProofOfAnotherPortIsNone) {
  const std::string nonce = api::new_nonce();
  EXPECT_NE(api::daemon_proof("t0ken", 1, nonce), api::daemon_proof("t0ken", 2, nonce));
  EXPECT_NE(api::daemon_proof("t0ken", 1, nonce), api::daemon_proof("token", 1, nonce));
  EXPECT_NE(api::daemon_proof("t0ken", 1, nonce), api::daemon_proof("t0ken", 1, api::new_nonce()));
}

TEST_F(ClientTest, AnAgentAsksForAProofUnderItsAttemptsToken) {
  knows_token_ = false;
  Client agent(server_.url(), token_,
               TokenOwner{.attempt = model::AttemptName{"0f5c", {{"demo", 42}, 2}}});
  EXPECT_FALSE(agent.call(api::kHealth));
  EXPECT_EQ(heard_.query["attempt"], "demo/42.2");
  EXPECT_EQ(heard_.query["generation"], "0f5c");
}

TEST_F(ClientTest, CallsGoToTheirRoutesWithTheirQueries) {
  answer(to_json(api::LogPage{}));
  ASSERT_TRUE(client().call(api::kLogs, {.path = model::RunId{"demo", 42},
                                         .query = {.after = 3, .rank = 1, .tail = {}}}));
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

TEST_F(ClientTest, AHeartbeatHasTheFieldsThatItsDaemonAccepts) {
  api::Heartbeat heartbeat;
  heartbeat.node = "demo/1.1/0";
  heartbeat.profile.emplace();
  answer(to_json(api::HeartbeatAnswer{}));
  for (const auto& [version, has_profile] : {std::pair(0, false), std::pair(2, true)}) {
    if (version > 0) says_more_ = {{"heartbeat_version", version}};
    ASSERT_TRUE(client().heartbeat(heartbeat, Deadline::after(std::chrono::seconds(5))));
    EXPECT_EQ(parse_json(bodies_.back()).value().contains("profile"), has_profile) << version;
  }
}

TEST_F(ClientTest, RequestsOmitFieldsWithoutAValue) {
  answer(to_json(api::RunView{}));
  api::SubmitRequest request;
  ASSERT_TRUE(client().submit(request));
  EXPECT_FALSE(parse_json(bodies_.back()).value()["spec"].contains("not_before"));
  request.spec.not_before = Time(Duration(1));
  ASSERT_TRUE(client().submit(request));
  EXPECT_TRUE(parse_json(bodies_.back()).value()["spec"].contains("not_before"));
}

TEST_F(ClientTest, ErrorsAreThoseOfTheDaemon) {
  answer_ = {.status = 404, .body = R"({"error":{"code":"not_found","message":"no run"}})"};
  EXPECT_EQ(client().call(api::kRun, {.path = model::RunId{"demo", 1}}).error().message, "no run");
  EXPECT_EQ(client().call(api::kRun, {.path = model::RunId{"demo", 1}}).error().code,
            Code::not_found);
  answer_ = {.status = 502, .body = "<html>"};
  EXPECT_EQ(client().call(api::kRun, {.path = model::RunId{"demo", 1}}).error().code,
            Code::unavailable);
}

TEST_F(ClientTest, AnAnswerThatIsNotOursIsAnError) {
  answer_ = {.body = "<html>"};
  EXPECT_EQ(client().call(api::kRuns).error().code, Code::corrupt);
  answer_ = {.body = R"({"runs":3})"};
  EXPECT_THAT(client().call(api::kRuns).error().message, HasSubstr("runs"));
}

// Code::invalid would tell an agent that its request is wrong.
TEST_F(ClientTest, AnAnswerWithAWordThatIsNotKnownIsCorruptAndNamed) {
  answer({{"command", "stp"}, {"acknowledged", 5}});
  api::Heartbeat heartbeat;
  heartbeat.node = "demo/42.2/1";
  const auto heard = client().heartbeat(heartbeat, Deadline::after(std::chrono::seconds(5)));
  EXPECT_EQ(heard.error().code, Code::corrupt);
  EXPECT_THAT(heard.error().message, HasSubstr("command: 'stp' is none of none, start, stop, leave,"
                                               " did you mean 'stop'?"));
}

// Agents, and command lines started with them, outlive the daemon of their version.
TEST_F(ClientTest, ADaemonThatSaysMoreThanIsKnownIsUnderstood) {
  const Json more = {{"weather", {{"wind", 3}}}};
  says_more_ = more;
  answer({{"command", "start"}, {"acknowledged", 5}, {"weather", "fair"}});
  api::Heartbeat heartbeat;
  heartbeat.node = "demo/42.2/1";
  const auto heard = client().heartbeat(heartbeat, Deadline::after(std::chrono::seconds(5)));
  ASSERT_TRUE(heard) << heard.error().message;
  EXPECT_EQ(heard->command, model::CommandKind::start);
  EXPECT_EQ(heard->acknowledged, 5);

  api::RunView view;
  view.id = "demo/42";
  Json run = to_json(view);
  run.update(more);
  answer({{"runs", {run}}});
  EXPECT_EQ(client().call(api::kRuns)->runs.at(0).id, "demo/42");

  answer_ = {.status = 404,
             .body = R"({"error":{"code":"not_found","message":"no run","hint":"?"}})"};
  EXPECT_EQ(client().call(api::kRun, {.path = model::RunId{"demo", 1}}).error().message, "no run");
}

TEST_F(ClientTest, ADaemonFileThatSaysMoreThanIsKnownLeadsToTheDaemon) {
  const Json file = {{"url", server_.url()}, {"weather", "fair"}};
  ASSERT_TRUE(write_file(home_.daemon_file(), dump_json(file)));
  ASSERT_TRUE(write_file(home_.token_file(), token_ + "\n"));
  answer(to_json(api::Health{}));
  EXPECT_TRUE(Client::open(home_));
}

TEST_F(ClientTest, ASubmissionThatMayHaveBeenHeardIsRepeatedOnceUnderTheSameId) {
  answer(to_json(api::RunView{}));
  Client submitter = client();
  refusals_ = 1;
  ASSERT_TRUE(submitter.submit({}));
  ASSERT_EQ(bodies_.size(), 2u);
  EXPECT_THAT(bodies_[0], testing::ContainsRegex(R"("request_id":"[0-9a-f]{32}")"));
  EXPECT_EQ(bodies_[0], bodies_[1]);
  refusals_ = 9;
  EXPECT_EQ(submitter.submit({}).error().code, Code::unavailable);
  ASSERT_EQ(bodies_.size(), 4u);
  EXPECT_NE(bodies_[2], bodies_[1]) << "another run has another id";
  refusals_ = 0;
  ASSERT_TRUE(submitter.submit({.spec = {}, .origin = {}, .request_id = "nightly-7"}));
  EXPECT_THAT(bodies_.back(), HasSubstr(R"("request_id":"nightly-7")"));
}

}  // namespace
}  // namespace lockstep::client

#include <atomic>
#include <thread>

#include "base/os/run_program.h"
#include "platform/host/ssh_keys.h"
#include "platform/server/server_for_test.h"
#include "platform/server/shell/ssh_authorities.h"

namespace lockstep::server {
namespace {

class ShellCallsTest : public ServerTest {
 protected:
  ShellCallsTest() : key_(host::open_ssh_key(folder_.path() / "keys" / "user").value()) {}

  void start_run() {
    submit();
    heartbeat("ready");
    heartbeat_of_ranks("running");
  }
  net::HttpResponse open(const std::string& key, const std::string& node = "0") {
    return call_as_user("POST", "/api/v1/runs/demo/1/nodes/" + node + "/shell",
                        dump_json({{"public_key", key}}));
  }
  // By the agent.
  net::HttpResponse answer(const Json& shell) {
    return call({.method = "POST",
                 .target = api::target_of(api::kNodeShell.path, {"demo", "1", "1", "0"}),
                 .headers = {{"Content-Type", "application/json"}},
                 .body = dump_json(shell)},
                "Bearer " + keys_->agent_token({"", kNodeId.attempt}));
  }
  // A heartbeat that waits gets the order.
  std::string awaited_order() {
    const Json answer =
        heartbeat_of_ranks("running", {{"wait_seconds", 20}, {"known_command", "none"}});
    return answer["shell"].is_string() ? answer["shell"] : "";
  }

  const std::string key_;
};

Json json_of(const net::HttpResponse& response) { return parse_json(response.body).value(); }

TEST_F(ShellCallsTest, AUserGetsACertificateOnceTheAgentHasPrepared) {
  start_run();
  net::HttpResponse opened;
  std::jthread user([&] { opened = open(key_); });
  EXPECT_NE(awaited_order(), "");
  const auto prepared = answer({{"host_key", key_}, {"user", "ann"}});
  ASSERT_EQ(prepared.status, 200) << prepared.body;
  user.join();
  ASSERT_EQ(opened.status, 200) << opened.body;
  const Json access = json_of(opened), node = json_of(prepared);
  EXPECT_EQ(access["user"], "ann");
  EXPECT_EQ(access["host_name"], "0.1.1.demo");
  EXPECT_EQ(node["principal"], ssh_principal({"", kNodeId.attempt}));
  EXPECT_NE(access["host_authority"], node["user_authority"]);
  EXPECT_TRUE(heartbeat_of_ranks("running")["shell"].is_null()) << "the order is done";
}

TEST_F(ShellCallsTest, TheErrorOfTheNodeIsThatOfTheUser) {
  start_run();
  net::HttpResponse opened;
  std::jthread user([&] { opened = open(key_); });
  awaited_order();
  EXPECT_EQ(answer({{"error", "host a has no sshd"}}).status, 200);
  user.join();
  EXPECT_EQ(opened.status, 400);
  EXPECT_NE(opened.body.find("host a has no sshd"), std::string::npos) << opened.body;
}

TEST_F(ShellCallsTest, SeveralUsersAreAnsweredByOneCallOfTheAgent) {
  start_run();
  std::atomic<int> waiting = 3;
  std::vector<std::jthread> users;
  for (int i = 0; i < 3; ++i)
    users.emplace_back([&] {
      EXPECT_EQ(open(key_).status, 200);
      --waiting;
    });
  // One of them may come after an answer of the agent.
  while (waiting > 0) {
    heartbeat_of_ranks("running", {{"wait_seconds", 1}, {"known_command", "none"}});
    EXPECT_EQ(answer({{"host_key", key_}, {"user", "ann"}}).status, 200);
  }
}

TEST_F(ShellCallsTest, WhatHasNoShellIsRefusedAtOnce) {
  EXPECT_EQ(open(key_).status, 404) << "no such run";
  submit();
  EXPECT_NE(open(key_).body.find("does not run yet"), std::string::npos);
  heartbeat("ready");
  heartbeat_of_ranks("running");
  EXPECT_EQ(open(key_, "1").status, 404) << "no such node";
  EXPECT_EQ(open("ssh-rsa AAAA").status, 400) << "no such key";
  EXPECT_EQ(answer({{"host_key", key_}, {"user", "-oProxyCommand=x"}}).status, 400);
}

}  // namespace
}  // namespace lockstep::server

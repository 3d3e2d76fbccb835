#include "platform/server/agent_polls.h"

#include <chrono>
#include <cstdint>

#include <gtest/gtest.h>

namespace lockstep::server {
namespace {

const model::RunId kGang{"demo", 1};
const model::AttemptId kGangAttempt{kGang, 1};

// A gang of two nodes that run, whose attempt does not yet.
class AgentPollsTest : public ::testing::Test {
 protected:
  AgentPollsTest() {
    model::Run run;
    run.id = kGang;
    run.epoch = 1;
    model::apply(state_, run);
    set_attempt(model::AttemptState::launching);
    for (int i : {0, 1}) set_node(i, model::NodeState::running);
    polls_.handle_change(kGang, 1);
  }
  void set_attempt(model::AttemptState state) {
    model::Attempt attempt;
    attempt.id = kGangAttempt;
    attempt.state = state;
    model::apply(state_, attempt);
  }
  void set_node(int index, model::NodeState state, int step = 0) {
    model::Node node;
    node.id = {kGangAttempt, index};
    node.state = state;
    node.ranks = {{.rank = index, .step = step}};
    model::apply(state_, node);
  }
  // How often the agents' calls are tried again when a change of this version is stored.
  int tries_after(std::int64_t version) {
    int tries = 0;
    const auto change = [&] {
      polls_.wait(kGang, std::chrono::hours(1), [&](LongPolls::AttemptKind) {
        ++tries;
        return false;
      });
      polls_.handle_change(kGang, version);
    };
    const net::Timer begin = loop_.after(std::chrono::milliseconds(2), change);
    const net::Timer end = loop_.after(std::chrono::milliseconds(8), [this] { loop_.stop(); });
    loop_.run();
    return tries - 1;
  }

  net::Loop loop_;
  model::State state_;
  AgentPolls polls_{loop_, state_};
};

TEST_F(AgentPollsTest, AHeartbeatOfANodeWakesNoAgent) {
  set_node(0, model::NodeState::running, 7);
  EXPECT_EQ(tries_after(1), 0);
}

TEST_F(AgentPollsTest, AChangeThatLeavesTheCommandsAsTheyAreWakesNoAgent) {
  set_node(0, model::NodeState::running, 7);
  EXPECT_EQ(tries_after(2), 0);
}

TEST_F(AgentPollsTest, AnAttemptThatRunsWakesItsAgents) {
  set_attempt(model::AttemptState::running);
  EXPECT_EQ(tries_after(2), 1);
}

TEST_F(AgentPollsTest, ALostNodeWakesTheAgents) {
  set_node(1, model::NodeState::lost);
  EXPECT_EQ(tries_after(2), 1);
}

}  // namespace
}  // namespace lockstep::server

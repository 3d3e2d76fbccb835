#include "platform/core/model/command.h"

#include <gtest/gtest.h>

namespace lockstep::model {
namespace {

const RunId kRun{"demo", 1};
const AttemptId kAttempt{kRun, 2};

// Two nodes of one device each, both ready, in the second attempt of demo/1.
class CommandTest : public ::testing::Test {
 protected:
  CommandTest() {
    model::Run run;
    run.id = kRun;
    run.state = RunState::starting;
    run.epoch = 2;
    apply(state_, run);
    Attempt attempt;
    attempt.id = kAttempt;
    attempt.state = AttemptState::launching;
    apply(state_, attempt);
    for (int i : {0, 1}) {
      Node node;
      node.id = {kAttempt, i};
      node.devices = {0};
      node.state = NodeState::ready;
      node.address = i == 0 ? "10.0.0.1" : "10.0.0.2";
      node.master_port = 4000 + i;
      node.rendezvous_port = 5000 + i;
      apply(state_, node);
    }
  }
  Node& node(int i) { return state_.nodes.at({kAttempt, i}); }
  Attempt& attempt() { return state_.attempts.at(kAttempt); }
  Command command(int i) { return command_for(state_, {"", {kAttempt, i}}); }

  State state_;
};

TEST_F(CommandTest, StartWhenAllNodesAreReadyCarriesTheFirstNodesAddresses) {
  EXPECT_EQ(command(1).kind, CommandKind::start);
  EXPECT_EQ(command(1).master_address, "10.0.0.1");
  EXPECT_EQ(command(1).master_port, 4000);
  EXPECT_EQ(command(1).rendezvous, "10.0.0.1:5000");
  EXPECT_EQ(command(0), command(1));
}

TEST_F(CommandTest, NoneWhileANodeIsNotReady) {
  node(0).state = NodeState::allocated;
  EXPECT_EQ(command(1).kind, CommandKind::none);
}

TEST_F(CommandTest, StartIsRepeatedUntilAllRanksRun) {
  node(1).state = NodeState::running;
  EXPECT_EQ(command(1).kind, CommandKind::start);
  node(0).state = NodeState::running;
  attempt().state = AttemptState::running;
  EXPECT_EQ(command(0).kind, CommandKind::none);
  EXPECT_EQ(command(1).kind, CommandKind::none);
}

TEST_F(CommandTest, StopUntilEveryNodesRanksAreKnownToHaveEnded) {
  attempt().state = AttemptState::draining;
  node(0).ranks = {{.state = RankState::exited}};
  node(1).ranks = {{.state = RankState::running}};
  EXPECT_EQ(command(0).kind, CommandKind::stop);
  EXPECT_EQ(command(1).kind, CommandKind::stop);
  EXPECT_EQ(command(1).grace, kGracePeriod);
  node(1).ranks[0].state = RankState::killed;
  EXPECT_EQ(command(0).kind, CommandKind::leave);
  EXPECT_EQ(command(1).kind, CommandKind::leave);
}

TEST_F(CommandTest, ANodeWithoutRanksIsAccountedForOnceItObeys) {
  attempt().state = AttemptState::draining;
  node(0).state = NodeState::lost;
  EXPECT_EQ(command(1).kind, CommandKind::stop);
  node(1).state = NodeState::stopping;
  EXPECT_EQ(command(1).kind, CommandKind::leave);
}

TEST_F(CommandTest, NothingForWhatTheStoreDoesNotKnow) {
  for (const NodeName& node : {NodeName{"", {{kRun, 3}, 0}}, NodeName{"", {{{"other", 1}, 1}, 0}},
                               NodeName{std::string(16, 'a'), {kAttempt, 0}}}) {
    EXPECT_EQ(command_for(state_, node).kind, CommandKind::none) << text(node);
    EXPECT_TRUE(command_for(state_, node).orphaned) << text(node);
  }
}

TEST_F(CommandTest, LeaveForWhatIsFenced) {
  node(0).state = NodeState::lost;
  EXPECT_EQ(command(0).kind, CommandKind::leave);
  attempt().state = AttemptState::ended;
  EXPECT_EQ(command(1).kind, CommandKind::leave);
}

TEST_F(CommandTest, AnIpv6AddressStandsInBrackets) {
  node(0).address = "fe80::1";
  EXPECT_EQ(command(0).rendezvous, "[fe80::1]:5000");
}

}  // namespace
}  // namespace lockstep::model

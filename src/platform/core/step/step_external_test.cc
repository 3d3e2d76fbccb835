// External runs: ranks of another launcher, whose agents attach (docs/design/external-runs.md).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/core/step/step_world_for_test.h"

namespace lockstep::step {
namespace {

using model::RankState;
using model::RunState;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;
using testing_world::map_of;
using testing_world::spec_of;

class StepExternalTest : public ::testing::Test {
 protected:
  static model::Rank rank(int number, RankState state = RankState::running, int code = 0) {
    return {
        .rank = number, .local_rank = number, .pid = 100 + number, .state = state, .code = code};
  }
  static model::AttachNode agent(const std::string& id, const std::vector<model::Rank>& ranks,
                                 const std::string& job = "job") {
    model::AttachNode agent;
    agent.job = job;
    agent.launcher = "torchrun";
    agent.spec = spec_of(2, 1);
    agent.origin.user = "ann";
    agent.agent = {.id = id, .machine = "host-" + id};
    agent.ranks = ranks;
    return agent;
  }
  model::NodeId attach(const model::AttachNode& agent) {
    auto outcome = step(world.state, agent, world.now);
    EXPECT_TRUE(outcome) << (outcome ? "" : outcome.error().message);
    for (const model::Change& change : outcome->changes) model::apply(world.state, change);
    EXPECT_TRUE(outcome->effects.empty());
    return outcome->attached.value();
  }
  void report(const model::NodeId& node, const std::vector<model::Rank>& ranks,
              model::StopReason stop = model::StopReason::none, const std::string& message = "") {
    model::NodeReport report;
    report.node = node;
    report.state = model::NodeState::running;
    report.ranks = ranks;
    for (model::Rank& rank : report.ranks)
      if (rank.state != RankState::running) rank.ended = world.now;
    report.agent.id = world.state.nodes.at(node).agents.front().id;
    report.stop_reason = stop;
    report.message = message;
    world.apply_event_ok(report);
  }
  const model::Run& run(const model::NodeId& node) { return world.run(node.attempt.run); }
  model::CommandKind command(const model::NodeId& node) {
    return model::command_for(world.state, {"", node}).kind;
  }

  testing_world::World world{map_of(1, 2)};
};

TEST_F(StepExternalTest, AnAgentThatAttachesMakesARunThatRuns) {
  const auto node = attach(agent("a", {rank(0)}));
  EXPECT_EQ(run(node).state, RunState::running);
  EXPECT_EQ(run(node).launcher, "torchrun");
  EXPECT_EQ(world.attempt(node.attempt.run).engine, "external");
  EXPECT_EQ(world.state.nodes.at(node).host, "host-a");
  EXPECT_EQ(command(node), model::CommandKind::none);
}

TEST_F(StepExternalTest, ARepeatedCallGetsTheSameNode) {
  const auto node = attach(agent("a", {rank(0)}));
  EXPECT_EQ(attach(agent("a", {rank(0), rank(1)})), node);
  EXPECT_EQ(world.state.nodes.size(), 1u);
}

TEST_F(StepExternalTest, AgentsOfAllHostsOfAJobShareARun) {
  const auto first = attach(agent("a", {rank(0)}));
  const auto second = attach(agent("b", {rank(1)}));
  EXPECT_EQ(second.attempt, first.attempt);
  EXPECT_EQ(second.index, 1);
}

TEST_F(StepExternalTest, ARankThatIsThereAlreadyIsOfALaterStartOfTheJob) {
  const auto earlier = attach(agent("a", {rank(0)}));
  world.now += seconds(1);
  const auto later = attach(agent("b", {rank(0)}));
  EXPECT_NE(later.attempt.run, earlier.attempt.run);
  EXPECT_EQ(attach(agent("c", {rank(1)})).attempt, later.attempt);
}

TEST_F(StepExternalTest, JobsOfOtherUsersAndOtherJobsHaveRunsOfTheirOwn) {
  const auto ann = attach(agent("a", {rank(0)}));
  auto of_bob = agent("b", {rank(1)});
  of_bob.origin.user = "bob";
  EXPECT_NE(attach(of_bob).attempt, ann.attempt);
  EXPECT_NE(attach(agent("c", {rank(1)}, "other")).attempt, ann.attempt);
}

TEST_F(StepExternalTest, ItTakesNoDevicesAndNoFairShare) {
  const auto node = attach(agent("a", {rank(0)}));
  const auto usual = world.submit(spec_of(1, 2));
  EXPECT_EQ(world.run(usual).state, RunState::starting);
  EXPECT_EQ(world.state.usage["demo"].outstanding, 2 * 3600) << "of the usual run";
  world.advance_time(seconds(10));
  EXPECT_EQ(run(node).state, RunState::running);
}

TEST_F(StepExternalTest, ItSucceedsAMomentAfterAllItsRanksHaveExitedWithZero) {
  const auto first = attach(agent("a", {rank(0)}));
  const auto second = attach(agent("b", {rank(1)}));
  report(first, {rank(0, RankState::exited)});
  report(second, {rank(1, RankState::exited)});
  world.advance_time(seconds(1));
  EXPECT_EQ(run(first).state, RunState::running) << "a further rank may join";
  world.advance_time(seconds(3));
  EXPECT_EQ(run(first).state, RunState::succeeded);
  EXPECT_EQ(run(first).reason, "all 2 ranks exited with code 0");
  EXPECT_EQ(command(second), model::CommandKind::leave);
  EXPECT_TRUE(world.effects.empty()) << "no engine has its nodes";
}

TEST_F(StepExternalTest, RanksThatNeverReportAreNotCountedAsEnded) {
  const auto node = attach(agent("a", {rank(0)}));
  report(node, {rank(0, RankState::exited)});
  world.advance_time(seconds(4));
  EXPECT_EQ(run(node).reason, "exit code 0 of all 1 ranks that have reported, of 2");
}

TEST_F(StepExternalTest, ARankThatReportsLateKeepsItsRunGoing) {
  const auto node = attach(agent("a", {rank(0)}));
  report(node, {rank(0, RankState::exited)});
  world.advance_time(seconds(2));
  report(node, {rank(0, RankState::exited), rank(1)});
  world.advance_time(minutes(2));
  EXPECT_EQ(run(node).state, RunState::running);
}

TEST_F(StepExternalTest, TheFirstRankThatFailedIsTheCauseAndItsErrorIsShown) {
  const auto node = attach(agent("a", {rank(0), rank(1)}));
  report(node, {rank(0), rank(1, RankState::exited, 1)}, {}, "rank 1: ValueError: bad loss");
  world.now += seconds(1);
  auto ended = rank(1, RankState::exited, 1);
  report(node, {rank(0, RankState::killed, 15), ended});
  world.advance_time(seconds(4));
  EXPECT_EQ(run(node).state, RunState::failed);
  EXPECT_EQ(world.attempt(node.attempt.run).cause, model::Cause::user_exit);
  EXPECT_EQ(run(node).reason,
            "rank 1 on host host-a exited with code 1; rank 1: ValueError: bad loss");
}

TEST_F(StepExternalTest, AKilledRankFailsItAndItIsNotTriedAgain) {
  const auto node = attach(agent("a", {rank(0)}));
  report(node, {rank(0, RankState::killed, 0)});
  world.advance_time(seconds(4));
  EXPECT_EQ(run(node).state, RunState::failed);
  EXPECT_EQ(run(node).reason, "rank 0 on host host-a was killed by an unknown signal");
}

TEST_F(StepExternalTest, AJobThatItsLauncherEndsByASignalIsCancelled) {
  const auto node = attach(agent("a", {rank(0)}));
  report(node, {rank(0)}, model::StopReason::signal);
  report(node, {rank(0, RankState::killed, 15)}, model::StopReason::signal);
  world.advance_time(seconds(4));
  EXPECT_EQ(run(node).state, RunState::cancelled);
  EXPECT_THAT(run(node).reason, HasSubstr("has ended it by a signal"));
}

TEST_F(StepExternalTest, ASilentAgentIsLostAndEndsTheRun) {
  const auto node = attach(agent("a", {rank(0)}));
  world.advance_time(minutes(1));
  EXPECT_TRUE(world.state.nodes.at(node).unreachable_since);
  EXPECT_EQ(run(node).state, RunState::running);
  world.advance_time(minutes(5));
  EXPECT_EQ(run(node).state, RunState::failed);
  EXPECT_EQ(run(node).reason, "the agent of node 0 on host host-a was silent for 5m");
  EXPECT_TRUE(world.effects.empty());
  EXPECT_EQ(command(node), model::CommandKind::leave);
}

TEST_F(StepExternalTest, ADaemonThatWasAwayWaitsForTheAgents) {
  const auto node = attach(agent("a", {rank(0)}));
  world.now += minutes(60);
  world.apply_event_ok(model::DaemonStarted{});
  world.apply_event_ok(model::Tick{.listening_since = world.now});
  EXPECT_EQ(run(node).state, RunState::running);
}

TEST_F(StepExternalTest, ItsSilenceIsNotThatOfTheCluster) {
  for (const char* id : {"a", "b", "c"}) attach(agent(id, {rank(0)}, id));
  const auto usual = world.submit(spec_of(1, 2));
  world.all_running(usual);
  world.now += minutes(5);
  world.apply_event_ok(model::Tick{});
  EXPECT_EQ(world.state.nodes.at(world.node(usual, 0)).state, model::NodeState::lost)
      << "after the usual time, not after that of a widespread silence";
}

TEST_F(StepExternalTest, LockstepNeitherStopsNorResumesIt) {
  const auto node = attach(agent("a", {rank(0)}));
  const auto stopped = world.apply_event(model::StopRun{node.attempt.run, ""});
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().message,
            "demo/1 was started by torchrun, and not by Lockstep: end it there");
  report(node, {rank(0, RankState::killed, 9)});
  world.advance_time(seconds(4));
  EXPECT_FALSE(world.apply_event(model::ResumeRun{node.attempt.run}));
}

TEST_F(StepExternalTest, ARestartedRankRunsAgain) {
  const auto node = attach(agent("a", {rank(0)}));
  report(node, {rank(0, RankState::killed, 9)});
  auto again = rank(0);
  again.restarts = 1;
  report(node, {again});
  EXPECT_EQ(world.state.nodes.at(node).ranks.front().state, RankState::running);
}

TEST_F(StepExternalTest, BadAgentsAreRefusedByTheField) {
  const auto refusal = [&](const model::AttachNode& agent) {
    const auto outcome = world.apply_event(agent);
    return outcome ? "" : outcome.error().message;
  };
  EXPECT_THAT(refusal(agent("a", {})), HasSubstr("ranks:"));
  EXPECT_THAT(refusal(agent("a", {rank(0), rank(0)})), HasSubstr("there twice"));
  EXPECT_THAT(refusal(agent("a/b", {rank(0)})), HasSubstr("incarnation"));
  EXPECT_THAT(refusal(agent("a", {rank(0)}, "a b")), HasSubstr("job"));
  auto nameless = agent("a", {rank(0)});
  nameless.spec.command.clear();
  EXPECT_THAT(refusal(nameless), HasSubstr("command:"));
  EXPECT_TRUE(world.state.runs.empty());

  const auto node = attach(agent("a", {rank(0)}));
  model::NodeReport report;
  report.node = node;
  report.state = model::NodeState::running;
  report.ranks = {rank(0), {.rank = 5, .local_rank = 0}};
  EXPECT_FALSE(world.apply_event(report));
}

}  // namespace
}  // namespace lockstep::step

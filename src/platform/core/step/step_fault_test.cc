// Faults of the infrastructure, and their effect on a run.
#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/core/step/step_world_for_test.h"

namespace lockstep::step {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_world::node_gone;
using testing_world::not_started;
using testing_world::spec_of;

class StepFaultTest : public testing_world::StepTest {
 protected:
  // All ranks of the node exit with code 1 and report this fault.
  model::NodeReport gave_up(const model::NodeId& node, report::Fault fault, int because_of,
                            std::string words = "") {
    auto word = world.ended(node, model::RankState::exited, 1);
    for (model::Rank& rank : word.ranks) {
      rank.fault = fault;
      rank.fault_rank = because_of;
      rank.fault_text = words;
    }
    return word;
  }
  // The kernel kills rank 0 for lack of memory, within the limit of its node.
  void use_too_much_memory(const model::RunId& run) {
    auto word = world.ended(world.node(run, 0), model::RankState::killed, SIGKILL);
    word.ranks[0].fault = report::Fault::out_of_memory;
    word.ranks[0].fault_text = "the node used more than its 2 GiB of memory";
    world.apply_event_ok(word);
    drain(run);
  }
  // Waits until the back-off before a retry is over.
  void wait_for_attempt(const model::RunId& run) {
    while (world.run(run).state == model::RunState::queued) world.advance_time(seconds(2));
  }
  // Rank 0 crashes at this step.
  void crash(const model::RunId& run, int signal, std::int64_t step) {
    wait_for_attempt(run);
    world.all_running(run);
    auto word = world.running(world.node(run, 0));
    word.ranks[0].state = model::RankState::killed;
    word.ranks[0].code = signal;
    word.ranks[0].step = step;
    world.apply_event_ok(word);
    drain(run);
  }
  void save(const model::RunId& run, std::int64_t step) {
    auto word = world.running(world.node(run, 0));
    word.last_checkpoint = world.now;
    word.last_checkpoint_step = step;
    world.apply_event_ok(word);
  }
  void lose_after_saving(const model::RunId& run, std::optional<std::int64_t> step) {
    wait_for_attempt(run);
    world.all_running(run);
    if (step) save(run, *step);
    world.apply_event_ok(world.ended(world.node(run, 0), model::RankState::killed, SIGKILL));
    drain(run);
  }
};

TEST_F(StepFaultTest, ACutConnectionIsALossThatIsRetried) {
  const model::RunId run = world.submit(spec_of(2, 1));
  world.all_running(run);
  world.apply_event_ok(gave_up(world.node(run, 0), report::Fault::connection_lost, 1));
  EXPECT_EQ(world.attempt(run).state,
            model::AttemptState::running);  // rank 1 may report its own end
  world.apply_event_ok(gave_up(world.node(run, 1), report::Fault::connection_lost, 0));
  EXPECT_EQ(world.attempt(run).cause, model::Cause::rank_lost);
  world.all_terminated(run);
  EXPECT_EQ(world.run(run).epoch, 2);
  EXPECT_EQ(world.run(run).losses, 1);
  EXPECT_EQ(world.run(run).user_exits, 0);
}

TEST_F(StepFaultTest, ARankWhosePeersLostItHasAMomentToTellOfItsOwnFailure) {
  const model::RunId run = world.submit(spec_of(2, 1));
  world.all_running(run);
  world.apply_event_ok(gave_up(world.node(run, 0), report::Fault::connection_lost, 1));
  world.now += seconds(2);
  world.apply_event_ok(world.ended(world.node(run, 1), model::RankState::exited, 7));
  EXPECT_EQ(world.attempt(run).cause, model::Cause::user_exit);
  EXPECT_THAT(world.attempt(run).reason, AllOf(HasSubstr("rank 1 on host b"), HasSubstr("code 7")));
}

TEST_F(StepFaultTest, ARankThatLivesOnWithoutItsPeersIsNotWaitedForLong) {
  const model::RunId run = world.submit(spec_of(2, 1));
  world.all_running(run);
  world.apply_event_ok(gave_up(world.node(run, 0), report::Fault::connection_lost, 1));
  world.now += seconds(3);
  world.apply_event_ok(world.running(world.node(run, 1)));
  EXPECT_EQ(world.attempt(run).cause, model::Cause::rank_lost);
  EXPECT_EQ(command(run, 1), model::CommandKind::stop);
}

TEST_F(StepFaultTest, ARunThatUsesMoreMemoryThanItAskedForHasOnlyTheRetriesOfItsProgram) {
  auto spec = spec_of(2, 1);
  spec.retries = 1;
  const model::RunId run = world.submit(spec);
  world.all_running(run);
  use_too_much_memory(run);
  EXPECT_EQ(world.run(run).user_exits, 1);
  EXPECT_EQ(world.run(run).losses, 0);
  wait_for_attempt(run);
  world.all_running(run);
  use_too_much_memory(run);
  EXPECT_EQ(world.state.attempts.at({run, 2}).cause, model::Cause::oom);
  EXPECT_EQ(world.run(run).state, model::RunState::failed);
  EXPECT_THAT(world.run(run).reason, AllOf(HasSubstr("rank 0 on host a was killed: the node used"),
                                           HasSubstr("1 of 1 retries are used up")));
}

TEST_F(StepFaultTest, ANodeThatItsEngineEndedForItsMemoryIsTheCauseWhateverItsPeersReport) {
  const model::RunId run = world.submit(spec_of(2, 1));
  world.all_running(run);
  world.apply_event_ok(gave_up(world.node(run, 1), report::Fault::connection_lost, 0));
  auto gone = not_started(world.node(run, 0), "out of memory: Slurm's job 7");
  gone.seen.out_of_memory = true;
  world.apply_event_ok(gone);
  EXPECT_EQ(world.attempt(run).cause, model::Cause::oom);
  world.apply_event_ok(gave_up(world.node(run, 1), report::Fault::connection_lost, 0));
  drain(run);
  EXPECT_EQ(world.run(run).state, model::RunState::failed);
  EXPECT_EQ(world.run(run).losses, 0);
  EXPECT_THAT(world.run(run).reason, HasSubstr("out of memory: Slurm's job 7"));
}

TEST_F(StepFaultTest, ASupersededRunFailsWithoutARetry) {
  auto spec = spec_of(2, 1);
  spec.retries = 5;
  const model::RunId run = world.submit(spec);
  world.all_running(run);
  world.apply_event_ok(
      gave_up(world.node(run, 0), report::Fault::superseded, -1, "demo/7.1 writes to /ck now"));
  EXPECT_EQ(world.attempt(run).cause, model::Cause::superseded);
  drain(run);
  EXPECT_EQ(world.run(run).state, model::RunState::failed);
  EXPECT_THAT(world.run(run).reason,
              AllOf(HasSubstr("rank 0 on host a"), HasSubstr("demo/7.1 writes to /ck now")));
  EXPECT_EQ(world.run(run).epoch, 1);
}

TEST_F(StepFaultTest, ARefusedRunFailsWithoutARetry) {
  auto spec = spec_of(2, 1);
  spec.retries = 5;
  const model::RunId run = world.submit(spec);
  world.all_running(run);
  world.apply_event_ok(
      gave_up(world.node(run, 0), report::Fault::refused, -1, "live/2 writes to /ck"));
  EXPECT_EQ(world.attempt(run).cause, model::Cause::refused);
  drain(run);
  EXPECT_EQ(world.run(run).state, model::RunState::failed);
  EXPECT_THAT(world.run(run).reason,
              AllOf(HasSubstr(text(run)), HasSubstr("refused"), HasSubstr("live/2 writes to /ck")));
}

TEST_F(StepFaultTest, NoNodeStartsWhileOneStillPreparesItsEnvironment) {
  const model::RunId run = world.submit(spec_of(2, 1));
  world.apply_event_ok(world.report(world.node(run, 0), model::NodeState::ready));
  world.apply_event_ok(world.report(world.node(run, 1), model::NodeState::allocated));
  EXPECT_EQ(world.state.nodes.at(world.node(run, 1)).state, model::NodeState::allocated);
  EXPECT_EQ(command(run, 0), model::CommandKind::none);
  world.apply_event_ok(world.report(world.node(run, 1), model::NodeState::ready));
  EXPECT_EQ(command(run, 0), model::CommandKind::start);
}

TEST_F(StepFaultTest, ARunWhoseEnvironmentAHostLacksFailsWithoutARetryAndNamesTheHost) {
  auto spec = spec_of(2, 1);
  spec.retries = 5;
  spec.conda = "train";
  const model::RunId run = world.submit(spec);
  world.apply_event_ok(world.report(world.node(run, 0), model::NodeState::ready));
  auto word = world.report(world.node(run, 1), model::NodeState::stopping);
  word.stop_reason = model::StopReason::no_environment;
  word.message = "conda: there is no environment 'train'";
  world.apply_event_ok(word);
  EXPECT_EQ(world.attempt(run).cause, model::Cause::launch_failed);
  drain(run);
  EXPECT_EQ(world.run(run).state, model::RunState::failed);
  EXPECT_THAT(world.run(run).reason,
              AllOf(HasSubstr("node 1 on host b"), HasSubstr("there is no environment 'train'")));
  EXPECT_EQ(world.run(run).epoch, 1);
  EXPECT_EQ(world.run(run).losses, 0);
}

TEST_F(StepFaultTest, AnEnvironmentThatIsNotPreparedInTimeIsNamed) {
  auto spec = spec_of(1, 1);
  spec.image = "localhost/train:2";
  const model::RunId run = world.submit(spec);
  auto word = world.report(world.node(run, 0), model::NodeState::allocated);
  word.agent.id = "0123456789abcdef";
  for (int i = 0; i < 31; ++i) {
    world.apply_event_ok(word);
    world.advance_time(seconds(10));
  }
  EXPECT_EQ(world.attempt(run).cause, model::Cause::launch_failed);
  EXPECT_THAT(world.attempt(run).reason,
              AllOf(HasSubstr("within 5m"), HasSubstr("node 0 on host a still prepares image"),
                    HasSubstr("localhost/train:2 (podman)")));
}

TEST_F(StepFaultTest, LossesCountOnlySinceTheLastNewerCheckpoint) {
  const model::RunId run = world.submit(spec_of(2, 2));
  for (int step = 10; step <= 60; step += 10) lose_after_saving(run, step);
  EXPECT_EQ(world.run(run).state, model::RunState::starting);
  EXPECT_EQ(world.run(run).losses, 1);
  EXPECT_EQ(world.run(run).epoch, 7);
  lose_after_saving(run, std::nullopt);
  lose_after_saving(run, 60);  // as far as before: no progress
  EXPECT_EQ(world.run(run).losses, 3);
  lose_after_saving(run, 30);
  EXPECT_EQ(world.run(run).state, model::RunState::failed);
  EXPECT_THAT(world.run(run).reason, HasSubstr("3 of 3 retries without a newer checkpoint"));
}

TEST_F(StepFaultTest, ARunThatEndsAtItsTimeOutKeepsItsCountOfLosses) {
  const model::RunId run = world.submit(spec_of(2, 2));
  lose_after_saving(run, std::nullopt);
  wait_for_attempt(run);
  world.all_running(run);
  save(run, 10);
  world.now += *world.run(run).spec.timeout;
  world.apply_event_ok(world.ended(world.node(run, 0), model::RankState::killed, SIGKILL));
  drain(run);
  EXPECT_EQ(world.run(run).state, model::RunState::timed_out);
  EXPECT_EQ(world.run(run).losses, 1);
}

TEST_F(StepFaultTest, ACheckpointThatIsToldOfWithTheEndCounts) {
  const model::RunId run = world.submit(spec_of(2, 2));
  for (int i = 1; i <= 5; ++i) {
    wait_for_attempt(run);
    world.all_running(run);
    auto word = world.ended(world.node(run, 0), model::RankState::killed, SIGKILL);
    word.last_checkpoint = world.now;
    word.last_checkpoint_step = i;
    world.apply_event_ok(word);
    drain(run);
  }
  EXPECT_EQ(world.run(run).losses, 1);
}

TEST_F(StepFaultTest, ACrashAtTheSameStepInTwoAttemptsIsTheProgramsFailure) {
  const model::RunId run = world.submit(spec_of(2, 1));
  crash(run, SIGSEGV, 12);
  EXPECT_EQ(world.run(run).state, model::RunState::starting);
  crash(run, SIGSEGV, 12);
  EXPECT_EQ(world.run(run).state, model::RunState::failed);
  EXPECT_THAT(world.run(run).reason,
              AllOf(HasSubstr("rank 0"), HasSubstr("SIGSEGV"), HasSubstr("step 12"),
                    HasSubstr("two attempts"), HasSubstr("the program")));
  world.now += seconds(1);
  world.apply_event_ok(model::ResumeRun{run});  // the program may have been repaired
  crash(run, SIGSEGV, 12);
  EXPECT_EQ(world.run(run).state, model::RunState::starting);
}

TEST_F(StepFaultTest, OtherDeathsAreTriedAgain) {
  const model::RunId run = world.submit(spec_of(2, 1));
  crash(run, SIGSEGV, 12);
  crash(run, SIGSEGV, 13);
  crash(run, SIGABRT, 13);
  EXPECT_NE(world.run(run).state, model::RunState::failed);
  const model::RunId killed = world.submit(spec_of(1, 1));
  crash(killed, SIGKILL, 12);
  crash(killed, SIGKILL, 12);
  EXPECT_NE(world.run(killed).state, model::RunState::failed);
}

TEST_F(StepFaultTest, AProgramThatCrashesBeforeItsFirstStepTwiceFails) {
  const model::RunId run = world.submit(spec_of(2, 1));
  crash(run, SIGABRT, -1);
  crash(run, SIGABRT, -1);
  EXPECT_EQ(world.run(run).state, model::RunState::failed);
  EXPECT_THAT(world.run(run).reason, HasSubstr("SIGABRT before its first step in two attempts"));
}

TEST_F(StepFaultTest, AHostThatShutsDownCostsNoRetryAndIsNotSuspected) {
  auto spec = spec_of(2, 1);
  spec.rank_loss_retries = 0;
  const model::RunId run = world.submit(spec);
  world.all_running(run);
  auto word = world.ended(world.node(run, 1), model::RankState::killed, SIGTERM, true);
  word.state = model::NodeState::stopping;
  word.stop_reason = model::StopReason::signal;
  word.message = "the agent was asked to end by signal 15";
  world.apply_event_ok(world.ended(world.node(run, 0), model::RankState::exited,
                                   1));  // a consequence, reported first
  word.ranks[0].ended = world.now - seconds(1);
  world.apply_event_ok(word);
  EXPECT_EQ(world.attempt(run).cause, model::Cause::node_stopped);
  EXPECT_THAT(world.attempt(run).reason, HasSubstr("node 1 on host b shuts down"));
  drain(run);
  EXPECT_EQ(world.run(run).epoch, 2);
  EXPECT_EQ(world.run(run).losses, 0);
  EXPECT_TRUE(world.state.hosts.empty());
}

TEST_F(StepFaultTest, AHostThatStopsEveryAttemptDoesNotKeepItsRunFromEnding) {
  world.state.settings.node_stops_per_day = 2;
  auto spec = spec_of(1, 1);
  spec.rank_loss_retries = 1;
  spec.timeout = std::chrono::hours(100);
  const model::RunId run = world.submit(spec);
  const auto stop = [&](Duration after) {
    world.all_running(run);
    world.now += after;
    auto word = world.ended(world.node(run, 0), model::RankState::killed, SIGTERM, true);
    word.state = model::NodeState::stopping;
    word.stop_reason = model::StopReason::signal;
    world.apply_event_ok(word);
    world.all_terminated(run);
  };
  for (int i = 0; i < 2; ++i) stop(seconds(1));
  EXPECT_EQ(world.run(run).losses, 0);
  stop(seconds(1));
  EXPECT_EQ(world.state.attempts.at({run, 3}).cause, model::Cause::node_lost);
  EXPECT_THAT(world.run(run).reason, HasSubstr("after 2 such stops within a day"));
  EXPECT_EQ(world.run(run).losses, 1);
  EXPECT_TRUE(world.state.hosts.empty());
  stop(std::chrono::hours(24));  // those before are a day ago
  EXPECT_EQ(world.run(run).losses, 1);
  for (int i = 0; i < 2; ++i) stop(seconds(1));
  EXPECT_EQ(world.run(run).state, model::RunState::failed);
}

// The shutdown of a host signals ranks and agents in any order.
TEST_F(StepFaultTest, ARankThatTheHostsShutdownEndedBeforeItsAgentIsNoLossEither) {
  const model::RunId run = world.submit(spec_of(2, 1));
  world.all_running(run);
  auto word = world.ended(world.node(run, 1), model::RankState::killed, SIGTERM);
  word.state = model::NodeState::stopping;
  word.stop_reason = model::StopReason::signal;
  word.message = "the agent was asked to end by signal 15";
  world.apply_event_ok(word);
  EXPECT_EQ(world.attempt(run).cause, model::Cause::node_stopped);
}

TEST_F(StepFaultTest, ALaunchThatFailsOfTheDaemonsOwnWantDoesNotBlameTheHost) {
  const model::RunId run = world.submit(spec_of(1, 1));
  world.apply_event_ok(
      not_started(world.node(run, 0), "no space left on device", model::EndBlame::engine));
  EXPECT_EQ(world.state.attempts.at({run, 1}).cause, model::Cause::launch_failed);
  EXPECT_TRUE(world.state.hosts.empty());
}

TEST_F(StepFaultTest, ARefusalByTheEngineEndsTheRunWithoutARetry) {
  const model::RunId run = world.submit(spec_of(2, 1));
  world.apply_event_ok(not_started(world.node(run, 1), "add a line 'ann' to /etc/lockstep/users",
                                   model::EndBlame::refusal));
  world.apply_event_ok(node_gone(world.node(run, 0)));
  EXPECT_EQ(world.run(run).state, model::RunState::failed);
  EXPECT_EQ(world.run(run).epoch, 1);
  EXPECT_EQ(world.state.attempts.at({run, 1}).cause, model::Cause::refused);
  EXPECT_THAT(world.run(run).reason, AllOf(HasSubstr("demo/1 was refused"),
                                           HasSubstr("add a line 'ann' to /etc/lockstep/users")));
  EXPECT_TRUE(world.state.hosts.empty()) << "no loss of the host";
}

TEST_F(StepFaultTest, ANodeThatItsEngineTakesBackIsNoLossEvenIfItsPeersFailFirst) {
  const model::RunId run = world.submit(spec_of(2, 1));
  world.all_running(run);
  world.now += std::chrono::seconds(1);
  const model::NodeId taken = world.node(run, 1);
  world.apply_event_ok(world.ended(world.node(run, 0), model::RankState::exited, 1));
  world.apply_event_ok(model::NodeSeen{taken,
                                       {.phase = model::NodePhase::gone,
                                        .reason = "preempted by job 7",
                                        .blame = model::EndBlame::preemption}});
  EXPECT_EQ(world.attempt(run).cause, model::Cause::node_stopped);
  EXPECT_THAT(world.run(run).reason, HasSubstr("was taken back by its engine: preempted by job 7"));
  world.apply_event_ok(node_gone(world.node(run, 0)));
  EXPECT_EQ(world.run(run).epoch, 2);
  EXPECT_EQ(world.run(run).losses, 0);
  EXPECT_EQ(world.run(run).user_exits, 0);
  EXPECT_TRUE(world.state.hosts.empty());
}

TEST_F(StepFaultTest, ARunThatWaitsInAQueueOfItsEngineHasThatReasonUntilItIsAdmitted) {
  const model::RunId run = world.submit(spec_of(1, 1));
  world.apply_event_ok(model::NodeSeen{
      world.node(run, 0),
      {.phase = model::NodePhase::pending, .reason = "Resources", .handle = "4711"}});
  EXPECT_EQ(world.run(run).reason, "waits in the queue of local: Resources");
  world.advance_time(std::chrono::hours(1));
  EXPECT_EQ(world.run(run).epoch, 1) << "it is not late";
  world.apply_event_ok(model::NodeSeen{world.node(run, 0), {.phase = model::NodePhase::starting}});
  EXPECT_EQ(world.run(run).reason, "");
  EXPECT_EQ(world.attempt(run).admitted, world.now);
  EXPECT_EQ(world.state.nodes.at(world.node(run, 0)).handle, "4711");
  world.advance_time(std::chrono::seconds(59));
  EXPECT_EQ(world.run(run).epoch, 1);
}

TEST_F(StepFaultTest, ARunThatIsStoppedWhileItsEngineQueuesItIsTakenOutOfTheQueueAtOnce) {
  const model::RunId run = world.submit(spec_of(1, 1));
  world.apply_event_ok(model::NodeSeen{world.node(run, 0), {.phase = model::NodePhase::pending}});
  world.apply_event_ok(model::StopRun{run, "enough"});
  world.apply_event_ok(model::Tick{});
  EXPECT_EQ(world.count<model::KillNode>(), 1);
}

TEST_F(StepFaultTest, StateAndReasonAgreeWhileARunEnds) {
  const model::RunId run = world.submit(spec_of(1, 1));
  world.all_running(run);
  world.apply_event_ok(world.ended(world.node(run, 0), model::RankState::exited, 0));
  EXPECT_EQ(world.run(run).state, model::RunState::running);
  EXPECT_THAT(world.run(run).reason, AllOf(HasSubstr("ending"), HasSubstr("code 0")));
  world.all_terminated(run);
  EXPECT_THAT(world.run(run).reason, AllOf(HasSubstr("its rank"), HasSubstr("code 0")));
}

}  // namespace
}  // namespace lockstep::step

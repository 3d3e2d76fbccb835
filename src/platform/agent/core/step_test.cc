// The decisions of an agent, step by step, without processes.
#include "platform/agent/core/step.h"

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/agent/core/agent_world_for_test.h"

namespace lockstep::agent {
namespace {

using model::CommandKind;
using model::NodeState;
using model::RankState;
using model::StopReason;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_world::kSecond;
using testing_world::settings_for_test;

class AgentStep : public testing_world::AgentStepTest {};

// --- The start ---

TEST_F(AgentStep, TheRanksStartOnceHoweverOftenTheDaemonRepeatsItsCommand) {
  start();
  start();
  EXPECT_EQ(state.phase, Phase::running);
  EXPECT_EQ(state.node_state, NodeState::running);
  ASSERT_EQ(state.ranks.all().size(), 2u);
  EXPECT_EQ(rank(1).rank, 3);
  EXPECT_EQ(rank(1).pid, 12);
  EXPECT_GE(reports, 1);
}

TEST_F(AgentStep, ARankThatCannotBeStartedEndsTheOthersAndIsNamed) {
  pids = {11};
  start_error = "no such program";
  start();
  EXPECT_EQ(state.node_state, NodeState::stopping);
  EXPECT_THAT(state.message, AllOf(HasSubstr("rank 3"), HasSubstr("no such program")));
  EXPECT_THAT(signals, ElementsAre(SIGKILL));
}

TEST_F(AgentStep, ANodeOfWhichNoRankCouldBeStartedCleansUpAtOnce) {
  pids = {};
  start_error = "no such program";
  start();
  EXPECT_EQ(state.phase, Phase::cleaning_up);
  EXPECT_THAT(signals, IsEmpty());
}

TEST_F(AgentStep, AHostWithoutTheWorkingFolderSaysThatAnotherAttemptWouldLackIt) {
  pids = {};
  start_error = "the working folder /data is missing on this host";
  lacks_folder = true;
  start();
  EXPECT_EQ(state.node_state, NodeState::stopping);
  EXPECT_EQ(state.stop_reason, StopReason::no_environment);
}

TEST_F(AgentStep, ANodeThatIsStoppedBeforeItsStartStartsNoRank) {
  command(CommandKind::stop);
  start();
  EXPECT_EQ(state.phase, Phase::cleaning_up);
  EXPECT_EQ(state.node_state, NodeState::stopping);
  EXPECT_THAT(state.ranks.all(), IsEmpty());
}

// --- The environment ---

AgentSettings settings_with_environment() {
  AgentSettings settings = settings_for_test();
  settings.prepares_environment = true;
  return settings;
}

TEST_F(AgentStep, ANodeIsReadyOnceItsEnvironmentIsPrepared) {
  configure(settings_with_environment());
  EXPECT_EQ(state.node_state, NodeState::allocated);
  pass(60 * kSecond);
  start();  // an order that no daemon gives yet
  EXPECT_EQ(state.phase, Phase::preparing);
  handle(EnvironmentPrepared{});
  EXPECT_EQ(state.node_state, NodeState::ready);
  EXPECT_EQ(reports, 1);
  start();
  EXPECT_EQ(state.phase, Phase::running);
}

TEST_F(AgentStep, AHostWithoutTheEnvironmentSaysSoAndStartsNothing) {
  configure(settings_with_environment());
  handle(EnvironmentPrepared{.error = "venv: there is no folder /v", .is_missing = true});
  EXPECT_EQ(state.node_state, NodeState::stopping);
  EXPECT_EQ(state.stop_reason, StopReason::no_environment);
  EXPECT_EQ(state.message, "venv: there is no folder /v");
  start();
  EXPECT_THAT(state.ranks.all(), IsEmpty());
  clean_up();
  EXPECT_EQ(state.phase, Phase::ended);
}

TEST_F(AgentStep, APreparationThatFailsOtherwiseMayWorkInTheNextAttempt) {
  configure(settings_with_environment());
  handle(EnvironmentPrepared{.error = "image: no space left on device"});
  EXPECT_EQ(state.node_state, NodeState::stopping);
  EXPECT_EQ(state.stop_reason, StopReason::none);
}

TEST_F(AgentStep, APreparationThatTakesTooLongEndsBeforeTheStartLimit) {
  configure(settings_with_environment());
  pass(269 * kSecond);
  EXPECT_EQ(state.phase, Phase::preparing);
  EXPECT_TRUE(next_deadline(state, now));
  pass(2 * kSecond);
  EXPECT_EQ(state.node_state, NodeState::stopping);
  EXPECT_THAT(state.message, HasSubstr("takes longer than 4m 30s"));
  EXPECT_EQ(state.stop_reason, StopReason::none);
}

TEST_F(AgentStep, AStopEndsThePreparation) {
  configure(settings_with_environment());
  command(CommandKind::stop);
  EXPECT_EQ(state.phase, Phase::cleaning_up);
  handle(EnvironmentPrepared{});
  EXPECT_EQ(state.node_state, NodeState::stopping);
  EXPECT_EQ(state.phase, Phase::cleaning_up);
}

// --- The running time ---

TEST_F(AgentStep, TheRunningTimeCountsFromWhenAllNodesRun) {
  start();
  pass(50 * kSecond);
  command(CommandKind::none);
  pass(99 * kSecond);
  EXPECT_EQ(state.phase, Phase::running);
  pass(kSecond);
  EXPECT_EQ(state.stop_reason, StopReason::timeout);
  EXPECT_THAT(signals, ElementsAre(SIGTERM));
}

TEST_F(AgentStep, ASingleNodeCountsItsRunningTimeFromItsStart) {
  AgentSettings settings = settings_for_test();
  settings.nodes = 1;
  configure(settings);
  start();
  pass(100 * kSecond);
  EXPECT_EQ(state.stop_reason, StopReason::timeout);
}

TEST_F(AgentStep, TheFirstReportOfARankStartsTheRunningTime) {
  start();
  pass(50 * kSecond);
  handle(ProgressReported{0, 1});
  command(CommandKind::start);
  for (int i = 0; i < 10; ++i) {
    pass(10 * kSecond);
    handle(ProgressReported{0, 2 + i});
    handle(ProgressReported{1, 2 + i});
  }
  EXPECT_EQ(state.stop_reason, StopReason::timeout);
}

TEST_F(AgentStep, EachStartRenewsTheWaitForTheOtherNodes) {
  start();
  pass(300 * kSecond);
  start();
  pass(399 * kSecond);
  EXPECT_EQ(state.phase, Phase::running);
  pass(kSecond);
  EXPECT_EQ(state.stop_reason, StopReason::timeout);
  EXPECT_FALSE(state.running_end);
}

TEST_F(AgentStep, WithoutATimeLimitTheRanksRunOn) {
  AgentSettings settings = settings_for_test();
  settings.time_left = Duration(0);
  configure(settings);
  start();
  command(CommandKind::none);
  pass(10'000 * kSecond);
  EXPECT_EQ(state.phase, Phase::running);
}

// --- The stop ---

TEST_F(AgentStep, AStopIsAskedForOnceAndForcedAfterTheGracePeriod) {
  start();
  command(CommandKind::stop);
  command(CommandKind::stop);
  EXPECT_THAT(signals, ElementsAre(SIGTERM));
  EXPECT_EQ(state.node_state, NodeState::stopping);
  EXPECT_EQ(state.stop_reason, StopReason::none);
  pass(9 * kSecond);
  EXPECT_THAT(signals, ElementsAre(SIGTERM));
  pass(2 * kSecond);
  EXPECT_THAT(signals, ElementsAre(SIGTERM, SIGKILL, SIGKILL));
}

TEST_F(AgentStep, ARankThatEndedBeforeTheFirstSignalDidNotEndByIt) {
  start();
  unseen_ends = {{0, RankState::exited, 3}};
  activities[1].activity = model::Activity::stopped;
  command(CommandKind::stop);
  EXPECT_FALSE(rank(0).signalled_by_agent);
  EXPECT_EQ(rank(1).activity, model::Activity::stopped);
  end(1, RankState::killed, SIGTERM);
  EXPECT_TRUE(rank(1).signalled_by_agent);
  EXPECT_FALSE(model::ended_badly(rank(1)));
}

TEST_F(AgentStep, NoSignalIsSentWhenTheCheckFindsThatAllRanksHaveEnded) {
  start();
  unseen_ends = {{0, RankState::exited, 0}, {1, RankState::exited, 0}};
  command(CommandKind::stop);
  EXPECT_THAT(signals, IsEmpty());
  EXPECT_EQ(state.phase, Phase::cleaning_up);
}

TEST_F(AgentStep, ASignalToTheAgentStopsItsRanksAndIsTheReason) {
  start();
  handle(AgentSignalled{SIGTERM});
  EXPECT_EQ(state.stop_reason, StopReason::signal);
  EXPECT_THAT(state.message, HasSubstr("signal 15"));
  EXPECT_THAT(signals, ElementsAre(SIGTERM));
}

TEST_F(AgentStep, LeaveKillsRunningRanksAtOnce) {
  start();
  command(CommandKind::leave);
  EXPECT_THAT(signals, ElementsAre(SIGKILL));
}

TEST_F(AgentStep, ARefusalThatCountsKillsTheRanksAndEndsTheAgent) {
  start();
  handle(CommandReceived{{.kind = CommandKind::none}, /*refused=*/true});
  EXPECT_THAT(signals, ElementsAre(SIGKILL));
  handle(RanksEnded{{{0, RankState::killed, SIGKILL}, {1, RankState::killed, SIGKILL}}});
  all_delivered = false;
  clean_up();
  EXPECT_TRUE(exited);
}

// --- Ends of ranks ---

TEST_F(AgentStep, AfterABadEndTheOthersStopFiveSecondsLater) {
  start();
  end(0, RankState::exited, 1);
  pass(4 * kSecond);
  EXPECT_THAT(signals, IsEmpty());
  pass(kSecond);
  EXPECT_THAT(signals, ElementsAre(SIGTERM));
  EXPECT_EQ(state.stop_reason, StopReason::none);
}

TEST_F(AgentStep, TimesCountFromTheGivenZero) {
  AgentSettings settings = settings_for_test();
  settings.clock_zero = Time(std::chrono::hours(24 * 365));
  configure(settings);
  start();
  end(0, RankState::exited, 0);
  EXPECT_EQ(rank(0).ended, settings.clock_zero + now);
}

TEST_F(AgentStep, AfterAGoodEndTheOthersGoOn) {
  start();
  end(0, RankState::exited, 0);
  pass(60 * kSecond);
  EXPECT_EQ(state.phase, Phase::running);
}

TEST_F(AgentStep, WithShrinkTheOthersGoOnWithoutAKilledRankAndItsPeersAreTold) {
  AgentSettings settings = settings_for_test();
  settings.on_failure = model::OnFailure::shrink;
  configure(settings);
  start();
  end(0, RankState::killed, SIGKILL);
  pass(60 * kSecond);
  EXPECT_EQ(state.phase, Phase::running);
  EXPECT_THAT(notified_ranks, ElementsAre(2));
  EXPECT_THAT(events, ElementsAre(HasSubstr("rank 2 was killed by signal 9")));
  end(1, RankState::exited, 1);
  EXPECT_EQ(state.phase, Phase::cleaning_up);
}

TEST_F(AgentStep, WithWaitAKilledRankIsStartedAgainThreeTimesAtMost) {
  AgentSettings settings = settings_for_test();
  settings.on_failure = model::OnFailure::wait;
  configure(settings);
  start();
  handle(ProgressReported{0, 7});
  for (int i = 0; i < 3; ++i) end(0, RankState::killed, SIGKILL);
  EXPECT_THAT(restarted_ranks, ElementsAre(0, 0, 0));
  EXPECT_EQ(rank(0).state, RankState::running);
  EXPECT_EQ(rank(0).restarts, 3);
  EXPECT_EQ(rank(0).step, 7);
  EXPECT_EQ(rank(0).pid, 103);
  end(0, RankState::killed, SIGKILL);
  EXPECT_EQ(rank(0).state, RankState::killed);
  EXPECT_THAT(notified_ranks, ElementsAre(2));
  pass(5 * kSecond);
  EXPECT_THAT(signals, ElementsAre(SIGTERM));
}

TEST_F(AgentStep, ARankThatCannotBeStartedAgainHasEnded) {
  AgentSettings settings = settings_for_test();
  settings.on_failure = model::OnFailure::wait;
  configure(settings);
  restart_error = "no memory";
  start();
  end(0, RankState::killed, SIGKILL);
  EXPECT_EQ(rank(0).state, RankState::killed);
  pass(5 * kSecond);
  EXPECT_THAT(signals, ElementsAre(SIGTERM));
}

TEST_F(AgentStep, WhenTheOnlyRanksOfANodeAreStartedAgainTheNodeDoesNotEnd) {
  AgentSettings settings = settings_for_test();
  settings.on_failure = model::OnFailure::wait;
  configure(settings);
  start();
  handle(RanksEnded{{{0, RankState::killed, SIGKILL}, {1, RankState::killed, SIGKILL}}});
  EXPECT_THAT(restarted_ranks, ElementsAre(0, 1));
  EXPECT_EQ(state.phase, Phase::running);
}

TEST_F(AgentStep, TheLastLinesOfTheFirstRankThatFailsAreLogged) {
  start();
  handle(RanksEnded{{{1, RankState::exited, 3}}});
  handle(RanksEnded{{{0, RankState::exited, 1}}});
  EXPECT_THAT(logged_ranks, ElementsAre(1));
}

TEST_F(AgentStep, ARankThatTheKernelEndedForMemorySaysSo) {
  start();
  handle(FaultPrinted{1, report::Fault::connection_lost, "Connection closed by peer"});
  handle(RanksEnded{{{1, RankState::killed, SIGKILL, /*out_of_memory=*/true}}});
  EXPECT_EQ(rank(1).fault, report::Fault::none);
  EXPECT_EQ(rank(1).fault_text, "out of memory: the kernel ended it");
  handle(RanksEnded{{{0, RankState::killed, SIGKILL}}});
  EXPECT_EQ(rank(0).fault_text, "");
}

TEST_F(AgentStep, ARankThatUsedMoreThanTheMemoryOfTheNodeReportsTheLimit) {
  start();
  handle(RanksEnded{{{1, RankState::killed, SIGKILL, /*out_of_memory=*/true, 2_GiB}}});
  EXPECT_EQ(rank(1).fault, report::Fault::out_of_memory);
  EXPECT_EQ(rank(1).fault_text,
            "the node used more than its 2.0 GiB of memory; ask for more with --memory");
}

TEST_F(AgentStep, ARankThatEndsWellIsNotLogged) {
  start();
  handle(RanksEnded{{{0, RankState::exited, 0}, {1, RankState::exited, 0}}});
  EXPECT_THAT(logged_ranks, IsEmpty());
}

// --- Progress, activities and faults ---

TEST_F(AgentStep, ARankWithoutProgressIsReportedWithItsLastReport) {
  start();
  handle(ProgressReported{0, 5});
  const Duration last = now;
  pass(29 * kSecond);
  EXPECT_FALSE(rank(0).stalled_since);
  pass(kSecond);
  EXPECT_EQ(rank(0).stalled_since, state.settings.clock_zero + last);
  EXPECT_FALSE(rank(1).stalled_since) << "it has never reported";
  EXPECT_EQ(state.phase, Phase::running) << "the daemon decides";
  handle(ProgressReported{0, 6});
  pass(kSecond);
  EXPECT_FALSE(rank(0).stalled_since);
}

TEST_F(AgentStep, WithoutADaemonTheAgentStopsRanksThatHang) {
  start();
  handle(ProgressReported{0, 5});
  daemon_is_away = true;
  pass(30 * kSecond);
  EXPECT_EQ(state.stop_reason, StopReason::no_progress);
  EXPECT_THAT(state.message, AllOf(HasSubstr("rank 2"), HasSubstr("step 5")));
}

TEST_F(AgentStep, AnAgentThatDoesNotReachTheDaemonForItsLeaseEndsItsRanksAndItself) {
  auto settings = settings_for_test();
  settings.hang_after = Duration(0);
  settings.lease = 60 * kSecond;
  configure(settings);
  start();
  daemon_is_away = true;
  all_delivered = false;
  pass(59 * kSecond);
  EXPECT_TRUE(signals.empty());
  EXPECT_EQ(*next_deadline(state, now) - now, kSecond);
  pass(kSecond);
  EXPECT_THAT(signals, ElementsAre(SIGTERM));
  EXPECT_THAT(state.message, HasSubstr("no call has reached the daemon for 1m, its lease"));
  end(0, model::RankState::killed, SIGTERM);
  end(1, model::RankState::killed, SIGTERM);
  clean_up();
  EXPECT_FALSE(exited) << "the daemon may come back and hear of it";
  pass(40 * kSecond);
  EXPECT_TRUE(exited);
}

TEST_F(AgentStep, AnExtensionMovesTheEndOfTheRunningTime) {
  auto settings = settings_for_test();
  settings.hang_after = Duration(0);
  configure(settings);
  start();
  command(CommandKind::none);
  pass(90 * kSecond);
  handle(CommandReceived{{.kind = CommandKind::none, .time_left = 150 * kSecond}});
  handle(CommandReceived{{.kind = CommandKind::none, .time_left = 150 * kSecond}});
  pass(50 * kSecond);
  EXPECT_THAT(signals, IsEmpty());
  pass(11 * kSecond);
  EXPECT_THAT(signals, ElementsAre(SIGTERM));
  EXPECT_EQ(state.stop_reason, StopReason::timeout);
}

TEST_F(AgentStep, TheRanksGetTheirSignalOnceBeforeTheTimeLimitAndGoOn) {
  auto settings = settings_for_test();
  settings.hang_after = Duration(0);
  settings.signal = model::LimitSignal{SIGUSR1, 30 * kSecond};
  configure(settings);
  start();
  command(CommandKind::none);
  pass(69 * kSecond);
  EXPECT_THAT(signals, IsEmpty());
  pass(2 * kSecond);
  EXPECT_THAT(signals, ElementsAre(SIGUSR1));
  EXPECT_EQ(state.phase, Phase::running);
  pass(30 * kSecond);
  EXPECT_THAT(signals, ElementsAre(SIGUSR1, SIGTERM));
}

TEST_F(AgentStep, AfterAnExtensionTheSignalComesAgainBeforeTheNewLimit) {
  auto settings = settings_for_test();
  settings.hang_after = Duration(0);
  settings.signal = model::LimitSignal{SIGUSR1, 30 * kSecond};
  configure(settings);
  start();
  command(CommandKind::none);
  pass(75 * kSecond);
  handle(CommandReceived{{.kind = CommandKind::none, .time_left = 200 * kSecond}});
  pass(90 * kSecond);
  EXPECT_THAT(signals, ElementsAre(SIGUSR1));
  pass(6 * kSecond);
  EXPECT_THAT(signals, ElementsAre(SIGUSR1, SIGUSR1));
}

TEST_F(AgentStep, ACallThatReachesTheDaemonRenewsTheLease) {
  auto settings = settings_for_test();
  settings.hang_after = Duration(0);
  settings.time_left = 1000 * kSecond;
  settings.lease = 60 * kSecond;
  configure(settings);
  start();
  for (int i = 0; i < 3; ++i) {
    daemon_is_away = true;
    pass(59 * kSecond);
    daemon_is_away = false;
    since_answer = Duration(0);
    pass(kSecond);
  }
  EXPECT_TRUE(signals.empty());
}

TEST_F(AgentStep, WithoutALeaseRanksGoOnWithoutADaemon) {
  auto settings = settings_for_test();
  settings.hang_after = Duration(0);
  settings.time_left = 100'000 * kSecond;
  configure(settings);
  start();
  daemon_is_away = true;
  pass(7200 * kSecond);
  EXPECT_TRUE(signals.empty());
}

TEST_F(AgentStep, ALeaseDoesNotKeepAnAgentFromDeliveringWhatItsRanksDid) {
  auto settings = settings_for_test();
  settings.lease = 60 * kSecond;
  configure(settings);
  start();
  end(0, model::RankState::exited, 0);
  end(1, model::RankState::exited, 0);
  clean_up();
  daemon_is_away = true;
  all_delivered = false;
  pass(7200 * kSecond);
  EXPECT_FALSE(exited);
}

TEST_F(AgentStep, AStoppedRankIsReportedWithinTwoSeconds) {
  start();
  pass(kSecond);
  const int before = reports;
  activities[1] = {model::Activity::stopped, now};
  pass(2 * kSecond);
  EXPECT_EQ(rank(1).activity, model::Activity::stopped);
  EXPECT_TRUE(rank(1).activity_since);
  EXPECT_GT(reports, before);
}

TEST_F(AgentStep, AFurtherStepWithdrawsAFault) {
  start();
  handle(FaultReported{0, report::Fault::connection_lost, 1, "lost rank 1"});
  EXPECT_EQ(rank(0).fault_rank, 1);
  handle(ProgressReported{0, 1});
  EXPECT_EQ(rank(0).fault, report::Fault::none);
}

TEST_F(AgentStep, APrintedFaultCountsForAMinute) {
  start();
  handle(FaultPrinted{0, report::Fault::connection_lost, "connection reset by peer"});
  handle(FaultPrinted{1, report::Fault::connection_lost, "connection reset by peer"});
  end(0, RankState::exited, 1);
  EXPECT_EQ(rank(0).fault, report::Fault::connection_lost);
  now += 61 * kSecond;
  end(1, RankState::exited, 1);
  EXPECT_EQ(rank(1).fault, report::Fault::none);
}

// --- The end ---

class EndedAgent : public AgentStep {
 protected:
  void end_ranks() { handle(RanksEnded{{{0, RankState::exited, 0}, {1, RankState::exited, 0}}}); }
};

TEST_F(EndedAgent, ItWaitsForLeaveAndTheDelivery) {
  start();
  end_ranks();
  EXPECT_EQ(state.phase, Phase::cleaning_up);
  clean_up();
  EXPECT_EQ(state.phase, Phase::ended);
  EXPECT_EQ(finished, 1);
  pass(60 * kSecond);
  EXPECT_FALSE(exited);
  all_delivered = false;
  command(CommandKind::leave);
  pass(kSecond);
  EXPECT_FALSE(exited);
  all_delivered = true;
  pass(kSecond);
  EXPECT_TRUE(exited);
}

TEST_F(EndedAgent, ItLeavesFiveMinutesAfterTheFirstLeaveWithItemsUnsent) {
  start();
  end_ranks();
  clean_up();
  command(CommandKind::leave);
  all_delivered = false;
  pass(299 * kSecond);
  EXPECT_FALSE(exited);
  pass(kSecond);
  EXPECT_TRUE(exited);
}

TEST_F(EndedAgent, ItLeavesADayAfterItsRanksWithoutACommand) {
  start();
  end_ranks();
  clean_up();
  daemon_is_away = true;
  now += std::chrono::hours(24);
  EXPECT_LE(*next_deadline(state, now), now);
  pass(kSecond);
  EXPECT_TRUE(exited);
}

TEST_F(EndedAgent, TwoChecksMustFindNothingAndProcessesThatDoNotEndAreNamed) {
  start();
  leftovers = {99};
  end_ranks();
  pass(9 * kSecond);
  EXPECT_EQ(state.phase, Phase::cleaning_up);
  pass(3 * kSecond);
  EXPECT_EQ(state.phase, Phase::ended);
  EXPECT_THAT(state.message, HasSubstr("99"));
}

}  // namespace
}  // namespace lockstep::agent

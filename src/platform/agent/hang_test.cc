// Ranks that hang, and daemons that refuse calls.
#include <gmock/gmock.h>

#include "base/format.h"
#include "base/os/files.h"
#include "platform/agent/agent_for_test.h"

namespace lockstep::agent {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// --- Hanging ranks ---

TEST_F(AgentTest, ARankThatFallsSilentIsToldWithItsStepAndWhatAllRanksDo) {
  launch_.devices = {0, 1};
  // Far above the time between two answers of the daemon: otherwise it seems to be away.
  launch_.hang_after = milliseconds(1500);
  shell("echo socket $LOCKSTEP_REPORT; if [ $RANK = 1 ]; then kill -STOP $$; fi; exec sleep 600");
  start();
  ASSERT_TRUE(eventually([&] { return is_asleep(0, "sleep") && has_stopped_process(); }));
  report(0, R"({"kind":"progress","step":7,"steps":9})");
  ASSERT_TRUE(eventually([&] { return rank(0).stalled_since.has_value(); }));
  EXPECT_EQ(rank(0).step, 7);
  EXPECT_EQ(rank(0).activity, model::Activity::sleeping);
  EXPECT_EQ(rank(0).state, model::RankState::running);
  EXPECT_FALSE(rank(1).stalled_since);  // it never reported
  EXPECT_EQ(rank(1).activity, model::Activity::stopped);
  EXPECT_EQ(rank(1).step, -1);

  // On a busy machine it may stall again before the report arrives, with a new time.
  const auto before = rank(0).stalled_since;
  report(0, R"({"kind":"metrics","step":8,"values":{"loss":1}})");
  ASSERT_TRUE(eventually([&] {
    return rank(0).step == 8 && (!rank(0).stalled_since || rank(0).stalled_since > before);
  }));
  ::kill(static_cast<pid_t>(rank(1).pid), SIGCONT);
  daemon_.order_stop();
  ASSERT_EQ(finish(), 0);
}

TEST_F(AgentTest, TheDaemonHearsHowFarARankIsThoughNothingElseHasChanged) {
  launch_.devices = {0};
  shell("echo socket $LOCKSTEP_REPORT; exec sleep 600");
  start();
  report(0, R"({"kind":"progress","step":7,"steps":9})");
  EXPECT_TRUE(eventually([&] { return rank(0).step == 7; }));
  daemon_.order_stop();
  ASSERT_EQ(finish(), 0);
}

TEST_F(AgentTest, WhatRanksDoIsSeenWhenOneEndsBadlyAndBeforeAnySignal) {
  launch_.devices = {0, 1, 2};
  daemon_.set_grace(0.2);
  shell(
      "case $RANK in 0) while [ ! -e go ]; do sleep 0.01; done; exit 3;; "
      "1) sh -c 'kill -STOP $$'; exit 0;; 2) exec sleep 600;; esac");
  start();
  ASSERT_TRUE(eventually([&] { return has_stopped_process() && is_asleep(2, "sleep"); }));
  ASSERT_TRUE(write_file(root_ / "go", ""));
  ASSERT_TRUE(eventually([&] { return rank(0).state == model::RankState::exited; }));
  EXPECT_EQ(rank(1).activity, model::Activity::stopped);  // of the shell's child
  EXPECT_EQ(rank(2).activity, model::Activity::sleeping);
  daemon_.order_stop();
  ASSERT_EQ(finish(), 0);
  EXPECT_EQ(rank(1).state, model::RankState::killed);
  EXPECT_TRUE(rank(1).signalled_by_agent);
  EXPECT_EQ(rank(1).activity, model::Activity::stopped);
}

TEST_F(AgentTest, AHungNodeEndsByItselfWhileTheDaemonIsAway) {
  launch_.hang_after = milliseconds(400);
  shell("echo socket $LOCKSTEP_REPORT; exec sleep 600");
  start();
  report(0, R"({"kind":"progress","step":7,"steps":9})");
  daemon_.set(DaemonBehavior::away);
  ASSERT_TRUE(eventually([&] { return marked().empty(); }));
  daemon_.set(DaemonBehavior::up);
  ASSERT_EQ(finish(), 0);
  EXPECT_THAT(daemon_.last().message, AllOf(HasSubstr("rank 0"), HasSubstr("step 7"),
                                            HasSubstr("the daemon does not answer")));
  EXPECT_TRUE(rank(0).signalled_by_agent);
  EXPECT_TRUE(rank(0).stalled_since);
}

// --- Faults that ranks report ---

// The process ends right after the report.
TEST_F(AgentTest, AFaultIsToldWithTheEndOfItsRank) {
  shell(R"(echo socket $LOCKSTEP_REPORT; while [ ! -e go ]; do sleep 0.01; done; exit 1)");
  start();
  report(0, R"({"kind":"fault","fault":"connection_lost","rank":2,"text":"lost rank 2"})");
  ASSERT_TRUE(eventually([&] { return agent_log().find("connection_lost") != std::string::npos; }));
  ASSERT_TRUE(write_file(root_ / "go", ""));
  ASSERT_TRUE(eventually([&] { return rank(0).state == model::RankState::exited; }));
  EXPECT_EQ(rank(0).fault, report::Fault::connection_lost);
  EXPECT_EQ(rank(0).fault_rank, 2);
  EXPECT_EQ(rank(0).fault_text, "lost rank 2");
  daemon_.order_stop();
  ASSERT_EQ(finish(), 0);
}

TEST_F(AgentTest, AFaultIsForgottenWhenItsRankTakesAFurtherStep) {
  shell("echo socket $LOCKSTEP_REPORT; exec sleep 600");
  start();
  report(0, R"({"kind":"progress","step":7,"steps":9})");
  report(0, R"({"kind":"fault","fault":"connection_lost","rank":2,"text":"lost rank 2"})");
  report(0, R"({"kind":"metrics","step":8,"values":{"loss":1}})");
  ASSERT_TRUE(eventually([&] {
    return std::ranges::any_of(daemon_.items(),
                               [](const spool::TelemetryItem& item) { return item.step == 8; });
  }));
  daemon_.order_stop();
  ASSERT_EQ(finish(), 0);
  EXPECT_EQ(rank(0).step, 8);
  EXPECT_EQ(rank(0).fault, report::Fault::none);
}

// --- Calls that the daemon refuses ---

TEST_F(AgentTest, ALineThatTheDaemonFindsInvalidHoldsUpNobodyElses) {
  daemon_.poison("poison");
  const std::vector<std::string> said = {"line-1", "line-2", "line-3", "line-4", "line-5",
                                         "poison", "line-7", "line-8", "line-9"};
  shell(
      format("for i in {}; do while [ ! -e $i ]; do sleep 0.01; done; echo $i; done; "
             "exec sleep 600",
             joined(said, " ")));
  start();
  ASSERT_TRUE(eventually([&] { return daemon_.last().state == model::NodeState::running; }));
  daemon_.set(DaemonBehavior::away);
  for (const auto& line : said) {  // each becomes an item
    ASSERT_TRUE(write_file(root_ / line, ""));
    ASSERT_TRUE(eventually([&] {
      return read_file(root_ / "node/spool").value_or("").find(line) != std::string::npos;
    }));
  }
  daemon_.set(DaemonBehavior::up);
  ASSERT_TRUE(eventually([&] { return daemon_.has_line_with("line-9"); }));
  EXPECT_THAT(
      daemon_.lines(0),
      AllOf(StartsWith("line-1\nline-2\nline-3\nline-4\nline-5\n[lockstep: "), HasSubstr("refused"),
            HasSubstr("step 0"), EndsWith(": I do not like it]\nline-7\nline-8\nline-9\n")));
  EXPECT_LE(daemon_.refusals(), 8);
  EXPECT_NE(agent_log().find("the daemon refuses item 6, which is left out"), std::string::npos);
  daemon_.order_stop();
  ASSERT_EQ(finish(), 0);
}

TEST_F(AgentTest, AStatusThatTheDaemonFindsInvalidNeitherSpinsNorStopsTheTimeOut) {
  launch_.time_left = milliseconds(1500);
  shell("exec sleep 600");
  start();
  ASSERT_TRUE(eventually([&] { return daemon_.last().state == model::NodeState::running; }));
  daemon_.set(DaemonBehavior::answering_invalid);
  const Time begun = SystemClock().now();
  ASSERT_TRUE(eventually([&] { return marked().empty() && daemon_.refusals() >= 3; }));
  // Repeated with increasing pauses, up to one second.
  EXPECT_LE(daemon_.refusals(), 12 + in_seconds(SystemClock().now() - begun));
  daemon_.set(DaemonBehavior::up);
  ASSERT_EQ(finish(), 0);
  EXPECT_EQ(daemon_.last().stop_reason, model::StopReason::timeout);
}

}  // namespace
}  // namespace lockstep::agent

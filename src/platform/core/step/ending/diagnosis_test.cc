#include "platform/core/step/ending/diagnosis.h"

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::step {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

const Time kDraining = Time(std::chrono::hours(24 * 365 * 50));
constexpr Duration kHangAfter = minutes(30);

// Two hosts, a and b, with two ranks each, that have all reported step 120.
class VerdictTest : public ::testing::Test {
 protected:
  VerdictTest() : nodes_(2) {
    for (int i = 0; i < 4; ++i) {
      model::Node& node = nodes_[static_cast<std::size_t>(i / 2)];
      node.id.index = i / 2;
      node.host = i < 2 ? "a" : "b";
      model::Rank rank{.rank = i, .local_rank = i % 2};
      rank.step = 120;
      node.ranks.push_back(rank);
    }
  }
  model::Rank& rank(int number) {
    return nodes_[static_cast<std::size_t>(number / 2)].ranks[static_cast<std::size_t>(number % 2)];
  }
  void end(int number, model::RankState how, int code, Duration after_draining) {
    rank(number).state = how;
    rank(number).code = code;
    rank(number).ended = kDraining + after_draining;
  }
  void end_by_us(int number, Duration after_draining) {
    end(number, model::RankState::killed, SIGTERM, after_draining);
    rank(number).signalled_by_agent = true;
  }
  void give_up(int number, report::Fault fault, int because_of, Duration after_draining,
               std::string words = "") {
    end(number, model::RankState::exited, 1, after_draining);
    rank(number).fault = fault;
    rank(number).fault_rank = because_of;
    rank(number).fault_text = std::move(words);
  }
  void stall(int number) { rank(number).stalled_since = kDraining - kHangAfter; }
  void drain_for(model::Cause cause) {
    attempt_.state = model::AttemptState::draining;
    attempt_.cause = cause;
    attempt_.draining = kDraining;
  }
  AttemptDiagnosis verdict() {
    return diagnose_attempt(attempt_, {&nodes_[0], &nodes_[1]}, kHangAfter)
        .value_or(AttemptDiagnosis{});
  }

  AttemptDiagnosis verdict_where_others_go_on() {
    return diagnose_attempt(attempt_, {&nodes_[0], &nodes_[1]}, kHangAfter,
                            model::OnFailure::shrink)
        .value_or(AttemptDiagnosis{});
  }

  model::Attempt attempt_;
  std::vector<model::Node> nodes_;
};

TEST_F(VerdictTest, WhoWasKilledIsNotToBlameWhileTheOthersGoOn) {
  end(1, model::RankState::killed, SIGKILL, seconds(-9));
  EXPECT_EQ(verdict().cause, model::Cause::rank_lost);
  EXPECT_EQ(verdict_where_others_go_on().cause, model::Cause::none);
  for (int number : {0, 2, 3}) end(number, model::RankState::exited, 0, seconds(-3));
  EXPECT_EQ(verdict_where_others_go_on().cause, model::Cause::none);
}

// Rank 0 had exited, since no replica needed it: no rank is left that could finish.
TEST_F(VerdictTest, ARankThatHadLeftBeforeTheOthersWereKilledIsNotTheRunsEnd) {
  end(1, model::RankState::killed, SIGKILL, seconds(-9));
  end(0, model::RankState::exited, 0, seconds(-8));
  EXPECT_EQ(verdict_where_others_go_on().cause, model::Cause::none);
  end(2, model::RankState::killed, SIGKILL, seconds(-3));
  EXPECT_EQ(verdict_where_others_go_on().cause, model::Cause::none);
  end(3, model::RankState::killed, SIGKILL, seconds(-2));
  EXPECT_EQ(verdict_where_others_go_on().cause, model::Cause::rank_lost);
}

TEST_F(VerdictTest, WhoWasKilledIsToBlameOnceTheOthersCannotGoOn) {
  end(1, model::RankState::killed, SIGKILL, seconds(-9));
  end(2, model::RankState::exited, 1, seconds(-3));
  EXPECT_EQ(verdict_where_others_go_on().cause, model::Cause::rank_lost);
  EXPECT_THAT(verdict_where_others_go_on().reason,
              AllOf(HasSubstr("rank 1 on host a"), HasSubstr("SIGKILL")));
  for (int number : {0, 2, 3}) end(number, model::RankState::killed, SIGSEGV, seconds(-1));
  EXPECT_EQ(verdict_where_others_go_on().cause, model::Cause::rank_lost);
}

TEST_F(VerdictTest, ARankThatWasKilledForMemorySaysSo) {
  end(1, model::RankState::killed, SIGKILL, seconds(-9));
  rank(1).fault_text = "out of memory: the kernel ended it";
  EXPECT_EQ(verdict().cause, model::Cause::rank_lost);
  EXPECT_THAT(verdict().reason, HasSubstr("SIGKILL"));
  EXPECT_THAT(verdict().reason, HasSubstr(": out of memory: the kernel ended it"));
}

TEST_F(VerdictTest, ARankThatUsedMoreThanTheMemoryOfItsNodeIsTheCause) {
  end(1, model::RankState::killed, SIGKILL, seconds(-9));
  rank(1).fault = report::Fault::out_of_memory;
  rank(1).fault_text = "the node used more than its 2 GiB of memory; ask for more with --memory";
  end(2, model::RankState::exited, 1, seconds(-5));
  EXPECT_EQ(verdict().cause, model::Cause::oom);
  EXPECT_EQ(verdict().rank, 1);
  EXPECT_THAT(verdict().reason,
              HasSubstr("rank 1 on host a was killed: the node used more than its "
                        "2 GiB of memory; ask for more with --memory"));
}

TEST_F(VerdictTest, NobodyIsToBlameWhileAllRunOrEndWell) {
  end(0, model::RankState::exited, 0, seconds(-5));
  rank(1).activity =
      model::Activity::stopped;  // a debugger's right, as long as nothing comes of it
  EXPECT_EQ(verdict().cause, model::Cause::none);
}

TEST_F(VerdictTest, TheFirstBadEndIsToBlameInWhateverOrderItIsTold) {
  end(0, model::RankState::exited, 1, seconds(-1));
  EXPECT_THAT(verdict().reason, AllOf(HasSubstr("rank 0 on host a"), HasSubstr("code 1")));
  drain_for(model::Cause::user_exit);
  end(3, model::RankState::killed, SIGSEGV, seconds(-2));
  EXPECT_EQ(verdict().cause, model::Cause::rank_lost);
  EXPECT_THAT(verdict().reason, AllOf(HasSubstr("rank 3 on host b"), HasSubstr("SIGSEGV")));
  EXPECT_EQ(verdict().rank, 3);
}

TEST_F(VerdictTest, OfRanksThatStallTheOneThatIsStoppedHangs) {
  for (int i : {0, 1, 2}) stall(i);
  rank(2).activity = model::Activity::blocked;
  rank(3).activity = model::Activity::stopped;
  EXPECT_EQ(verdict().cause, model::Cause::hung);
  EXPECT_THAT(verdict().reason, AllOf(HasSubstr("rank 3 on host b hangs"), HasSubstr("step 120"),
                                      HasSubstr("30m"), HasSubstr("stopped")));
}

TEST_F(VerdictTest, ElseTheOneThatIsBlockedElseTheLowestStepElseTheLowestRank) {
  stall(1);
  EXPECT_THAT(verdict().reason,
              AllOf(HasSubstr("rank 0 on host a hangs"), HasSubstr("step 120"), HasSubstr("30m")));
  rank(3).step = 119;
  EXPECT_THAT(verdict().reason, HasSubstr("rank 3 on host b hangs: no progress since step 119"));
  rank(3).step = -1;  // never reported one, so it does not count
  EXPECT_THAT(verdict().reason, HasSubstr("rank 0 on host a"));
  rank(2).activity = model::Activity::blocked;
  EXPECT_THAT(verdict().reason, HasSubstr("rank 2 on host b hangs: no progress since step 120 for "
                                          "30m; its process is blocked in the kernel"));
}

TEST_F(VerdictTest, ARankThatHasEndedDoesNotHang) {
  end(0, model::RankState::exited, 0, seconds(-5));
  stall(1);
  EXPECT_THAT(verdict().reason, HasSubstr("rank 1 on host a hangs"));
}

TEST_F(VerdictTest, WhoWasEndedByUsIsStillTheOneThatHung) {
  stall(2);
  rank(2).activity = model::Activity::stopped;
  const auto before = verdict();
  drain_for(model::Cause::hung);
  for (int i = 0; i < 4; ++i) end_by_us(i, seconds(i));
  EXPECT_EQ(verdict().reason, before.reason);
  EXPECT_EQ(verdict().cause, model::Cause::hung);
}

TEST_F(VerdictTest, WhatEndsBadlyWhileAHangDrainsIsAnEcho) {
  stall(2);
  drain_for(model::Cause::hung);
  end(0, model::RankState::exited, 1, seconds(1));
  EXPECT_THAT(verdict().reason, HasSubstr("rank 1 on host a hangs"));
  end(3, model::RankState::killed, SIGKILL, seconds(-1));  // reported late
  EXPECT_EQ(verdict().cause, model::Cause::rank_lost);
}

TEST_F(VerdictTest, WhatEndsBadlyAfterWeEndedAPeerIsAnEcho) {
  stall(0);
  end_by_us(1, seconds(-20));  // its agent, at the time-out, while no daemon was there
  end(2, model::RankState::exited, 1, seconds(-19));
  EXPECT_EQ(verdict().cause, model::Cause::hung);
  end(3, model::RankState::killed, SIGSEGV, seconds(-21));
  EXPECT_EQ(verdict().cause, model::Cause::rank_lost);
}

TEST_F(VerdictTest, AStoppedRankExplainsThePeersThatGaveUp) {
  end(0, model::RankState::exited, 1, seconds(-1));
  EXPECT_EQ(verdict().cause, model::Cause::user_exit);
  drain_for(model::Cause::user_exit);
  rank(3).activity = model::Activity::stopped;
  EXPECT_EQ(verdict().cause, model::Cause::hung);
  EXPECT_THAT(verdict().reason, AllOf(HasSubstr("rank 3 on host b hangs"), HasSubstr("stopped")));
  rank(0).state = model::RankState::killed;
  rank(0).code = SIGABRT;
  EXPECT_EQ(verdict().cause, model::Cause::hung);
}

TEST_F(VerdictTest, AStoppedRankThatGoesOnWhileItsAttemptDrainsAndFailsIsStillToBlame) {
  end(0, model::RankState::exited, 1, seconds(-1));
  rank(3).activity = model::Activity::stopped;
  const auto before = verdict();
  drain_for(model::Cause::hung);
  end(3, model::RankState::exited, 1, seconds(1));
  EXPECT_EQ(verdict().cause, model::Cause::hung);
  EXPECT_EQ(verdict().reason, before.reason);
}

TEST_F(VerdictTest, AStoppedRankDoesNotExplainThatAnotherWasKilled) {
  end(0, model::RankState::killed, SIGKILL, seconds(-1));
  rank(3).activity = model::Activity::stopped;
  EXPECT_EQ(verdict().cause, model::Cause::rank_lost);
}

TEST_F(VerdictTest, ARankThatWasStoppedAndThenKilledIsLost) {
  end(3, model::RankState::killed, SIGKILL, seconds(-1));
  rank(3).activity = model::Activity::stopped;
  EXPECT_THAT(verdict().reason, AllOf(HasSubstr("rank 3 on host b"), HasSubstr("SIGKILL")));
}

// --- Faults that ranks reported ---

TEST_F(VerdictTest, ALostConnectionIsALossAndNotTheUsersExit) {
  give_up(0, report::Fault::connection_lost, 2, seconds(-2));
  EXPECT_EQ(verdict().cause, model::Cause::rank_lost);
  EXPECT_THAT(verdict().reason, AllOf(HasSubstr("rank 0 on host a to rank 2 on host b"),
                                      HasSubstr("lost"), HasSubstr("rank 2 had not ended")));
  EXPECT_TRUE(verdict().provisional_since);  // rank 2 may be about to report that it failed
  give_up(2, report::Fault::connection_lost, 0, seconds(-1));
  rank(3).state = model::RankState::killed;
  rank(3).code = SIGABRT;  // as its library ends it
  rank(3).fault = report::Fault::connection_lost;
  rank(3).ended = kDraining;
  end_by_us(1, seconds(1));
  EXPECT_EQ(verdict().cause, model::Cause::rank_lost);
  EXPECT_THAT(verdict().reason, HasSubstr("from rank 0 on host a to rank 2 on host b was lost"));
  EXPECT_FALSE(verdict().provisional_since);
}

TEST_F(VerdictTest, ALostConnectionWithoutANameIsALossToo) {
  give_up(1, report::Fault::connection_lost, -1, seconds(-2),
          "Connection closed by peer [10.0.0.2]");
  EXPECT_EQ(verdict().cause, model::Cause::rank_lost);
  EXPECT_THAT(verdict().reason, AllOf(HasSubstr("rank 1 on host a"), HasSubstr("connection"),
                                      HasSubstr("Connection closed by peer [10.0.0.2]")));
}

// Its clock, or its exit from Python, may place its own end after those of its victims.
TEST_F(VerdictTest, ARankThatFailedByItselfIsToBlameForThePeersThatLostIt) {
  give_up(0, report::Fault::connection_lost, 3, seconds(-2));
  give_up(3, report::Fault::connection_lost, 2, seconds(-1));
  end(2, model::RankState::exited, 7, seconds(0));
  EXPECT_EQ(verdict().cause, model::Cause::user_exit);
  EXPECT_THAT(verdict().reason, AllOf(HasSubstr("rank 2 on host b"), HasSubstr("code 7")));
  end(2, model::RankState::killed, SIGKILL, seconds(0));
  EXPECT_THAT(verdict().reason, AllOf(HasSubstr("rank 2 on host b"), HasSubstr("SIGKILL")));
  rank(0).fault_rank = rank(3).fault_rank = -1;  // as scripts over Gloo and NCCL report it
  EXPECT_THAT(verdict().reason, AllOf(HasSubstr("rank 2 on host b"), HasSubstr("SIGKILL")));
}

TEST_F(VerdictTest, ATimeOutBlamesTheRankThatItWaitedForWhateverThatDoes) {
  give_up(0, report::Fault::timed_out, 2, seconds(-2), "all_reduce #42");
  give_up(1, report::Fault::timed_out, 2, seconds(-1), "all_reduce #42");
  EXPECT_EQ(verdict().cause, model::Cause::hung);
  EXPECT_THAT(verdict().reason, AllOf(HasSubstr("rank 2 on host b hangs"),
                                      HasSubstr("rank 0 timed out"), HasSubstr("all_reduce #42")));
  rank(2).activity = model::Activity::running;
  EXPECT_THAT(verdict().reason, HasSubstr("all_reduce #42; its process computes"));
  // When it continues at last, its peers are gone.
  give_up(2, report::Fault::connection_lost, 0, seconds(1));
  EXPECT_EQ(verdict().cause, model::Cause::hung);
  EXPECT_THAT(verdict().reason, HasSubstr("rank 2 on host b hangs"));
  end(2, model::RankState::killed, SIGKILL, seconds(-3));
  EXPECT_EQ(verdict().cause, model::Cause::rank_lost);
}

TEST_F(VerdictTest, ATimeOutWithoutANameIsAHang) {
  give_up(0, report::Fault::timed_out, -1, seconds(-2),
          "Timed out waiting 5000ms for recv operation");
  EXPECT_EQ(verdict().cause, model::Cause::hung);
  EXPECT_THAT(verdict().reason, AllOf(HasSubstr("rank 0 on host a timed out"),
                                      HasSubstr("Timed out waiting 5000ms for recv operation")));
  rank(3).activity = model::Activity::blocked;
  EXPECT_THAT(verdict().reason, HasSubstr("rank 3 on host b hangs: its process is blocked"));
}

TEST_F(VerdictTest, ABlockedRankExcusesItsPeersAsAStoppedOneDoes) {
  end(0, model::RankState::exited, 1, seconds(-1));
  rank(3).activity = model::Activity::blocked;
  EXPECT_EQ(verdict().cause, model::Cause::hung);
  EXPECT_THAT(verdict().reason, HasSubstr("rank 3 on host b hangs: its process is blocked"));
  const auto before = verdict();
  drain_for(model::Cause::hung);
  end(3, model::RankState::exited, 1, seconds(1));  // the disk answers, and its peers are gone
  EXPECT_EQ(verdict().reason, before.reason);
}

TEST_F(VerdictTest, ARankThatExitedEarlyIsNamedAndNotItsFirstVictim) {
  end(3, model::RankState::exited, 0, seconds(-9));
  give_up(2, report::Fault::connection_lost, 3, seconds(-2));
  EXPECT_EQ(verdict().cause, model::Cause::user_exit);
  EXPECT_THAT(verdict().reason, AllOf(HasSubstr("rank 3 on host b exited with code 0 before"),
                                      HasSubstr("rank 2"), HasSubstr("code 1")));
  rank(2).fault_rank = -1;
  EXPECT_THAT(verdict().reason, HasSubstr("rank 3 on host b exited with code 0 before"));
}

TEST_F(VerdictTest, AReplacementThatFindsTheOthersFinishedIsALossAndNotTheUsersFault) {
  end(3, model::RankState::exited, 0, seconds(-9));
  give_up(2, report::Fault::connection_lost, -1, seconds(-2), "no rank is left");
  rank(2).restarts = 1;
  EXPECT_EQ(verdict().cause, model::Cause::rank_lost);
  EXPECT_THAT(verdict().reason, HasSubstr("no rank is left"));
}

TEST_F(VerdictTest, ARankThatWasSupersededIsNeitherLostNorTheUsersFault) {
  give_up(0, report::Fault::connection_lost, 1, seconds(-3));
  give_up(1, report::Fault::superseded, -1, seconds(-2), "demo/1.2 writes to /ck now");
  EXPECT_EQ(verdict().cause, model::Cause::superseded);
  EXPECT_THAT(verdict().reason,
              AllOf(HasSubstr("rank 1 on host a"), HasSubstr("demo/1.2 writes to /ck now")));
}

TEST_F(VerdictTest, ARunThatWasRefusedByTheWriterOfItsFolderIsToldWhose) {
  end(0, model::RankState::exited, 1, seconds(-3));
  give_up(1, report::Fault::refused, -1, seconds(-2), "live/2 (attempt 1, on a) writes to /ck");
  EXPECT_EQ(verdict().cause, model::Cause::refused);
  EXPECT_THAT(verdict().reason, HasSubstr("was refused: live/2 (attempt 1, on a) writes to /ck"));
}

TEST_F(VerdictTest, AFaultDoesNotExplainASignal) {
  give_up(0, report::Fault::connection_lost, 2, seconds(-3));
  rank(0).state = model::RankState::killed;
  rank(0).code = SIGSEGV;
  EXPECT_THAT(verdict().reason, AllOf(HasSubstr("rank 0 on host a"), HasSubstr("SIGSEGV")));
}

}  // namespace
}  // namespace lockstep::step

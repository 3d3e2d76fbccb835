#include "platform/server/waiting.h"

#include <string>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using Turn = Waiting::Turn;

const RunId kRun{"demo", 1};
const RunId kOther{"demo", 2};

class WaitingTest : public ::testing::Test {
 protected:
  // Notes each turn; answers on the turn that is the `answers`-th, or the last.
  Waiting::Try call(std::string& turns, std::size_t answers) {
    return [&turns, answers](Turn turn) {
      turns += turn == Turn::last ? 'L' : 'e';
      return turns.size() >= answers;
    };
  }
  void run_for(Duration duration) {
    Timer timer = loop_.after(duration, [this] { loop_.stop(); });
    loop_.run();
  }

  Loop loop_;
  Waiting waiting_{loop_};
  std::string turns_;
};

TEST_F(WaitingTest, WhatCanBeAnsweredDoesNotWait) {
  waiting_.wait(kRun, hours(1), call(turns_, 1));
  waiting_.wake(kRun);
  run_for(milliseconds(5));
  EXPECT_EQ(turns_, "e");
}

TEST_F(WaitingTest, WithoutPatienceTheFirstTryIsTheLast) {
  waiting_.wait(kRun, Duration(0), call(turns_, 9));
  EXPECT_EQ(turns_, "L");
}

TEST_F(WaitingTest, WakesOfOneTurnAreOneTryAndOtherRunsAreNone) {
  waiting_.wait(kRun, hours(1), call(turns_, 9));
  waiting_.wake(kOther);
  waiting_.wake(kRun);
  waiting_.wake(kRun);
  EXPECT_EQ(turns_, "e");
  run_for(milliseconds(5));
  EXPECT_EQ(turns_, "ee");
}

TEST_F(WaitingTest, PatienceEndsWithALastTry) {
  waiting_.wait(kRun, milliseconds(1), call(turns_, 9));
  run_for(milliseconds(20));
  EXPECT_EQ(turns_, "eL");
}

TEST_F(WaitingTest, ATryMayWakeAndWaitItself) {
  std::string inner;
  waiting_.wait(kRun, hours(1), [&](Turn) {
    turns_ += 'x';
    waiting_.wake(kRun);
    if (turns_.size() < 3) return false;
    waiting_.wait(kRun, hours(1), call(inner, 2));
    return true;
  });
  run_for(milliseconds(20));
  EXPECT_EQ(turns_, "xxx");
  EXPECT_EQ(inner, "ee");
}

TEST_F(WaitingTest, TheEndAnswersAllAndNobodyWaitsAfterIt) {
  waiting_.wait(kRun, hours(1), call(turns_, 9));
  waiting_.wait(kOther, hours(1), call(turns_, 9));
  waiting_.end();
  EXPECT_EQ(turns_, "eeLL");
  waiting_.wait(kRun, hours(1), call(turns_, 9));
  EXPECT_EQ(turns_, "eeLLL");
}

}  // namespace
}  // namespace lockstep

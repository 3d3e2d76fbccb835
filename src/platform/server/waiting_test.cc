#include "platform/server/waiting.h"

#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "base/clock.h"

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
  // Until so many turns have been, and for a while in which no more should come.
  void run_until(std::size_t turns) {
    Timer timer;
    const auto bound = Deadline::after(std::chrono::seconds(10));
    const std::function<void()> look = [&] {
      const bool over = turns_.size() + inner_.size() >= turns || bound.passed();
      timer = loop_.after(milliseconds(over ? 5 : 1), [&, over] { over ? loop_.stop() : look(); });
    };
    look();
    loop_.run();
  }

  Loop loop_;
  Waiting waiting_{loop_};
  std::string turns_, inner_;
};

TEST_F(WaitingTest, WhatCanBeAnsweredDoesNotWait) {
  waiting_.wait(kRun, hours(1), call(turns_, 1));
  waiting_.wake(kRun);
  run_until(1);
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
  run_until(2);
  EXPECT_EQ(turns_, "ee");
}

TEST_F(WaitingTest, PatienceEndsWithALastTry) {
  waiting_.wait(kRun, milliseconds(1), call(turns_, 9));
  run_until(2);
  EXPECT_EQ(turns_, "eL");
}

TEST_F(WaitingTest, ATryMayWakeAndWaitItself) {
  waiting_.wait(kRun, hours(1), [&](Turn) {
    turns_ += 'x';
    waiting_.wake(kRun);
    if (turns_.size() < 3) return false;
    waiting_.wait(kRun, hours(1), call(inner_, 2));
    return true;
  });
  run_until(5);
  EXPECT_EQ(turns_, "xxx");
  EXPECT_EQ(inner_, "ee");
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

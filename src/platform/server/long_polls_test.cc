#include "platform/server/long_polls.h"

#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "base/clock.h"

namespace lockstep::server {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using Turn = LongPolls::AttemptKind;

const model::RunId kRun{"demo", 1};
const model::RunId kOther{"demo", 2};

class WaitingTest : public ::testing::Test {
 protected:
  // Records each try; answers on the `answers`-th try, or the last.
  LongPolls::TryAnswer call(std::string& turns, std::size_t answers) {
    return [&turns, answers](Turn turn) {
      turns += turn == Turn::last ? 'L' : 'e';
      return turns.size() >= answers;
    };
  }
  // Runs until there were so many tries, and for a while in which no more may come.
  void run_until(std::size_t turns) {
    net::Timer timer;
    const auto bound = Deadline::after(std::chrono::seconds(10));
    const std::function<void()> look = [&] {
      const bool over = turns_.size() + inner_.size() >= turns || bound.passed();
      timer = loop_.after(milliseconds(over ? 5 : 1), [&, over] { over ? loop_.stop() : look(); });
    };
    look();
    loop_.run();
  }

  net::Loop loop_;
  LongPolls waiting_{loop_};
  std::string turns_, inner_;
};

TEST_F(WaitingTest, WhatCanBeAnsweredDoesNotWait) {
  waiting_.wait(kRun, hours(1), call(turns_, 1));
  waiting_.notify(kRun);
  run_until(1);
  EXPECT_EQ(turns_, "e");
}

TEST_F(WaitingTest, WithoutPatienceTheFirstTryIsTheLast) {
  waiting_.wait(kRun, Duration(0), call(turns_, 9));
  EXPECT_EQ(turns_, "L");
}

TEST_F(WaitingTest, WakesOfOneTurnAreOneTryAndOtherRunsAreNone) {
  waiting_.wait(kRun, hours(1), call(turns_, 9));
  waiting_.notify(kOther);
  waiting_.notify(kRun);
  waiting_.notify(kRun);
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
    waiting_.notify(kRun);
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
  waiting_.finish();
  EXPECT_EQ(turns_, "eeLL");
  waiting_.wait(kRun, hours(1), call(turns_, 9));
  EXPECT_EQ(turns_, "eeLLL");
}

}  // namespace
}  // namespace lockstep::server

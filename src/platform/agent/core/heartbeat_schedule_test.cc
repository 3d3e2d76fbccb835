#include "platform/agent/core/heartbeat_schedule.h"

#include <chrono>

#include <gtest/gtest.h>

namespace lockstep::agent {
namespace {

using model::CommandKind;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

class Schedule : public testing::Test {
 protected:
  bool answer(CommandKind kind, bool orphaned = false) {
    schedule.begin_call(now);
    return schedule.handle_answer({.kind = kind, .orphaned = orphaned}, now);
  }
  bool fail(Code code) {
    schedule.begin_call(now);
    return schedule.handle_failure({code, "no"}, now);
  }
  Duration pause() const { return schedule.next_call() - now; }

  Duration now = seconds(1000);
  HeartbeatSchedule schedule{
      {.heartbeat_interval = milliseconds(200), .refusal_limit = minutes(10)}, now};
};

TEST_F(Schedule, ANewStatusIsSentAtOnceAndDeliveredByTheAnswer) {
  EXPECT_TRUE(schedule.has_news());
  schedule.begin_call(now);
  EXPECT_FALSE(schedule.has_news());
  schedule.record_status_change();
  EXPECT_TRUE(schedule.handle_answer({}, now));
  EXPECT_TRUE(schedule.has_news());
  EXPECT_FALSE(schedule.is_status_delivered());
  answer(CommandKind::none);
  EXPECT_TRUE(schedule.is_status_delivered());
}

TEST_F(Schedule, CallsFollowAtTheIntervalAndNotAtOnceAfterANewCommand) {
  answer(CommandKind::none);
  EXPECT_EQ(pause(), milliseconds(200));
  schedule.begin_call(now);
  now += milliseconds(190);
  schedule.handle_answer({.kind = CommandKind::start}, now);
  EXPECT_EQ(pause(), milliseconds(50));
}

TEST_F(Schedule, TheDaemonSetsTheIntervalWithinBounds) {
  schedule.set_interval(seconds(2));
  answer(CommandKind::none);
  EXPECT_EQ(pause(), seconds(2));
  answer(CommandKind::none);
  EXPECT_EQ(pause(), seconds(2)) << "until it sets another";
  schedule.set_interval(minutes(5));
  EXPECT_EQ(schedule.interval(), seconds(15));
  schedule.set_interval(Duration(0));
  EXPECT_EQ(schedule.interval(), milliseconds(50));
}

TEST_F(Schedule, AContactIsTheBeginOfACallThatWasAnswered) {
  const Duration begun = now;
  schedule.begin_call(now);
  now += seconds(10);
  schedule.handle_answer({}, now);
  EXPECT_EQ(schedule.last_contact(), begun);
  fail(Code::unavailable);
  fail(Code::denied);
  EXPECT_EQ(schedule.last_contact(), begun);
  answer(CommandKind::none, true);
  EXPECT_EQ(schedule.last_contact(), now) << "the daemon of another store tells where it is, too";
}

TEST_F(Schedule, WhileTheDaemonIsAwayThePausesGrowToASecondAndNewsWaits) {
  for (const auto expected : {50, 100, 200, 400, 800, 1000, 1000}) {
    fail(Code::unavailable);
    EXPECT_EQ(pause(), milliseconds(expected));
    now += pause();
  }
  schedule.record_status_change();
  EXPECT_FALSE(schedule.has_news());
  answer(CommandKind::none);
  EXPECT_TRUE(schedule.answers());
}

TEST_F(Schedule, RefusalsCountWhenTheyLastWithoutABreak) {
  EXPECT_FALSE(fail(Code::denied));
  now += minutes(9);
  EXPECT_FALSE(fail(Code::unavailable));
  now += minutes(9);
  EXPECT_FALSE(fail(Code::not_found));
  now += minutes(10);
  EXPECT_TRUE(fail(Code::denied));
  EXPECT_TRUE(schedule.is_refused());
}

TEST_F(Schedule, AnOrphanObeysOnlyStopAndCallsRarely) {
  answer(CommandKind::start);
  const Duration last = now;
  now += seconds(1);
  EXPECT_FALSE(answer(CommandKind::leave, /*orphaned=*/true));
  EXPECT_EQ(schedule.command().kind, CommandKind::start);
  EXPECT_EQ(schedule.last_answer(), last);
  EXPECT_EQ(pause(), seconds(5));
  EXPECT_TRUE(answer(CommandKind::stop, /*orphaned=*/true));
  EXPECT_EQ(schedule.command().kind, CommandKind::stop);
  EXPECT_TRUE(answer(CommandKind::none));
  EXPECT_FALSE(schedule.is_orphaned());
}

}  // namespace
}  // namespace lockstep::agent

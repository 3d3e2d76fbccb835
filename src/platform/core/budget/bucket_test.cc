// Buckets: refilling, the cap, holds, and a property test over many uses.
#include "platform/core/budget/bucket.h"

#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"

namespace lockstep::budget {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

const Refill kRefill{.an_hour = minutes(60), .cap = minutes(480)};
Time at_minute(std::int64_t minute) { return Time(minutes(minute)); }
Bucket empty_bucket() { return {.id = "ann", .level = {}, .time = at_minute(0)}; }

TEST(Bucket, IsFullAtFirst) {
  const Bucket bucket = full_bucket("ann", kRefill, at_minute(5));
  EXPECT_EQ(level_at(bucket, kRefill, at_minute(5)), minutes(480));
  EXPECT_EQ(bucket.held, minutes(0));
}

TEST(Bucket, RefillsWithTimeUpToItsCap) {
  EXPECT_EQ(level_at(empty_bucket(), kRefill, at_minute(30)), minutes(30));
  EXPECT_EQ(level_at(empty_bucket(), kRefill, at_minute(479)), minutes(479));
  EXPECT_EQ(level_at(empty_bucket(), kRefill, at_minute(60'000)), minutes(480));
}

TEST(Bucket, AVeryLongTimeOverflowsNothing) {
  const Refill large{.an_hour = kAmountMax, .cap = kAmountMax};
  EXPECT_EQ(level_at(empty_bucket(), large, Time(hours(24 * 365 * 1000))), kAmountMax);
}

TEST(Bucket, AClockThatWasSetBackTakesNothing) {
  Bucket bucket = empty_bucket();
  bucket.level = minutes(10);
  bucket.time = at_minute(100);
  EXPECT_EQ(level_at(bucket, kRefill, at_minute(40)), minutes(10));
}

TEST(Bucket, ALowerCapTakesWhatIsAboveIt) {
  const Bucket bucket = full_bucket("ann", kRefill, at_minute(0));
  EXPECT_EQ(level_at(bucket, {.an_hour = minutes(60), .cap = minutes(100)}, at_minute(0)),
            minutes(100));
}

TEST(Bucket, WithoutRefillItKeepsItsLevel) {
  Bucket bucket = empty_bucket();
  bucket.level = minutes(10);
  EXPECT_EQ(level_at(bucket, {.an_hour = {}, .cap = minutes(100)}, at_minute(900)), minutes(10));
}

TEST(Bucket, SaysWhenItHasEnough) {
  const auto when = time_of_level(empty_bucket(), kRefill, minutes(90));
  ASSERT_TRUE(when);
  EXPECT_EQ(*when, at_minute(90));
  EXPECT_EQ(level_at(empty_bucket(), kRefill, *when), minutes(90));
  const Refill odd{.an_hour = minutes(7), .cap = minutes(480)};
  const Time later = time_of_level(empty_bucket(), odd, minutes(90)).value();
  EXPECT_GE(level_at(empty_bucket(), odd, later), minutes(90));
  EXPECT_LT(level_at(empty_bucket(), odd, later - Duration(1)), minutes(90));
}

TEST(Bucket, NeverHasMoreThanItsCap) {
  EXPECT_FALSE(time_of_level(empty_bucket(), kRefill, minutes(481)));
  EXPECT_FALSE(time_of_level(empty_bucket(), {.an_hour = {}, .cap = minutes(9)}, minutes(1)));
}

TEST(Bucket, AHoldThatIsNotUsedGoesBackUpToTheCap) {
  Bucket bucket = full_bucket("ann", kRefill, at_minute(0));
  bucket = hold(bucket, kRefill, minutes(100), at_minute(0));
  EXPECT_EQ(level_at(bucket, kRefill, at_minute(0)), minutes(380));
  bucket = settle(bucket, kRefill, minutes(100), minutes(20), at_minute(60));
  EXPECT_EQ(bucket.level, minutes(480)) << "380 + 60 + 80 is beyond the cap";
  EXPECT_EQ(bucket.held, minutes(0));
  EXPECT_EQ(bucket.spent, minutes(20));
}

TEST(Bucket, AUseBeyondItsHoldTakesWhatIsThereAndNoMore) {
  Bucket bucket = empty_bucket();
  bucket.level = minutes(50);
  bucket = hold(bucket, kRefill, minutes(40), at_minute(0));
  bucket = settle(bucket, kRefill, minutes(40), minutes(500), at_minute(0));
  EXPECT_EQ(bucket.level, minutes(0));
  EXPECT_EQ(bucket.spent, minutes(50));
}

TEST(Bucket, ItsLevelStaysBetweenZeroAndTheCapInEverySequence) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    Time now = at_minute(0);
    Bucket bucket = full_bucket("ann", kRefill, now);
    std::vector<DeviceTime> holds;
    for (int i = 0; i < 100; ++i) {
      now += std::chrono::seconds(random.below(7'200));
      const DeviceTime amount = std::chrono::seconds(random.below(20'000));
      if (random.below(2) == 0 && amount <= level_at(bucket, kRefill, now)) {
        bucket = hold(bucket, kRefill, amount, now);
        holds.push_back(amount);
      } else if (!holds.empty()) {
        bucket = settle(bucket, kRefill, holds.back(), amount, now);
        holds.pop_back();
      }
      DeviceTime held(0);
      for (const DeviceTime each : holds) held += each;
      ASSERT_EQ(bucket.held, held);
      ASSERT_GE(bucket.level, DeviceTime(0));
      ASSERT_LE(bucket.level, kRefill.cap);
    }
  }
}

}  // namespace
}  // namespace lockstep::budget

#include "platform/identity/password/login_throttle.h"

#include <chrono>

#include <gtest/gtest.h>

#include "base/format.h"

namespace lockstep::identity {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

class LoginThrottleTest : public ::testing::Test {
 protected:
  // Fails a log-in as soon as it is allowed; returns how long it had to wait.
  Duration fail_once(const std::string& user, const std::string& address) {
    const Duration begin = now_;
    while (const auto wait = throttle_.begin(user, address, now_).count()) now_ += Duration(wait);
    throttle_.fail(address, now_);
    return now_ - begin;
  }

  LoginThrottle throttle_;
  Duration now_ = hours(100);
};

TEST_F(LoginThrottleTest, FiveFailuresAreFreeThenTheWaitDoublesUpToFiveMinutes) {
  for (int i = 0; i < 5; ++i) EXPECT_EQ(fail_once("ann", ""), seconds(0));
  for (const int wait : {1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300})
    EXPECT_EQ(fail_once("ann", ""), seconds(wait));
}

TEST_F(LoginThrottleTest, AnotherUserDoesNotWait) {
  for (int i = 0; i < 9; ++i) fail_once("ann", "");
  EXPECT_EQ(throttle_.begin("bob", "", now_), seconds(0));
}

TEST_F(LoginThrottleTest, AnAddressWaitsWhateverUserItNames) {
  for (int i = 0; i < 5; ++i) EXPECT_EQ(fail_once(format("user{}", i), "10.0.0.9"), seconds(0));
  EXPECT_EQ(throttle_.begin("another", "10.0.0.9", now_), seconds(1));
  EXPECT_EQ(throttle_.begin("another", "10.0.0.10", now_), seconds(0));
}

TEST_F(LoginThrottleTest, ALogInWithoutAUserWaitsForItsAddressOnly) {
  for (int i = 0; i < 5; ++i) fail_once(format("user{}", i), "10.0.0.9");
  EXPECT_EQ(throttle_.wait_of_address("10.0.0.9", now_), seconds(1));
  EXPECT_EQ(throttle_.wait_of_address("10.0.0.10", now_), seconds(0));
  EXPECT_EQ(throttle_.wait_of_address("", now_), seconds(0));
}

TEST_F(LoginThrottleTest, ThisMachineHasNoLimitForAllItsUsers) {
  for (int i = 0; i < 50; ++i) EXPECT_EQ(fail_once(format("user{}", i), ""), seconds(0));
}

TEST_F(LoginThrottleTest, ASuccessForgetsTheFailures) {
  for (int i = 0; i < 9; ++i) fail_once("ann", "10.0.0.9");
  now_ += minutes(5);
  EXPECT_EQ(throttle_.begin("ann", "10.0.0.9", now_), seconds(0));
  throttle_.succeed("ann", "10.0.0.9");
  for (int i = 0; i < 5; ++i) EXPECT_EQ(fail_once("ann", "10.0.0.9"), seconds(0));
}

TEST_F(LoginThrottleTest, ParallelAttemptsCountBeforeTheyFail) {
  for (int i = 0; i < 5; ++i) EXPECT_EQ(throttle_.begin("ann", "", now_), seconds(0));
  EXPECT_EQ(throttle_.begin("ann", "", now_), seconds(1));
}

TEST_F(LoginThrottleTest, AnHourWithoutAFailureForgetsThem) {
  for (int i = 0; i < 20; ++i) fail_once("ann", "");
  now_ += hours(1) + seconds(1);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(fail_once("ann", ""), seconds(0));
}

TEST(FailureCounts, DropTheOldestNameWhenThereAreTooMany) {
  FailureCounts counts;
  for (int i = 0; i < 10'100; ++i) counts.add(format("user{}", i), hours(1) + Duration(i));
  EXPECT_EQ(counts.size(), 10'000u);
  for (int i = 0; i < 4; ++i) counts.add("user10099", hours(1) + Duration(20'000));
  EXPECT_GT(counts.wait_of("user10099", hours(1) + Duration(20'000)), Duration(0));
}

}  // namespace
}  // namespace lockstep::identity

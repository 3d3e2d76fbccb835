#include "platform/identity/oidc/begun_logins.h"

#include <chrono>

#include <gtest/gtest.h>

#include "base/format.h"

namespace lockstep::identity {
namespace {

using std::chrono::seconds;

TEST(BegunLogins, AreFoundByTheirNameUntilTheyEnd) {
  BegunLogins<int> logins;
  logins.add("a", 7, seconds(10), seconds(0));
  EXPECT_EQ(*logins.find("a", seconds(9)), 7);
  EXPECT_EQ(logins.find("b", seconds(9)), nullptr);
  EXPECT_EQ(logins.find("a", seconds(10)), nullptr);
  logins.add("b", 8, seconds(20), seconds(10));
  EXPECT_EQ(logins.size(), 1u);
  logins.erase("b");
  EXPECT_EQ(logins.find("b", seconds(10)), nullptr);
}

TEST(BegunLogins, TheOneThatEndsFirstMakesRoom) {
  BegunLogins<std::size_t> logins;
  for (std::size_t i = 0; i <= kBegunLoginsMax; ++i)
    logins.add(format("{}", i), i, seconds(100 + i), seconds(0));
  EXPECT_EQ(logins.size(), kBegunLoginsMax);
  EXPECT_EQ(logins.find("0", seconds(1)), nullptr);
  EXPECT_NE(logins.find("1", seconds(1)), nullptr);
}

}  // namespace
}  // namespace lockstep::identity

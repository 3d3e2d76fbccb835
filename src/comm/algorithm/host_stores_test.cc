#include "comm/algorithm/host_stores.h"

#include <cstddef>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

constexpr std::size_t kMebibyte = std::size_t{1} << 20;

TEST(StoresIntoOthers, GoThroughTheCacheThatIsSharedWhileItHoldsThem) {
  const auto near = [] { return true; };
  EXPECT_EQ(stores_into_others(2 * kMebibyte, near), Stores::cached);
  EXPECT_EQ(stores_into_others(16 * kMebibyte, near), Stores::cached);
  EXPECT_EQ(stores_into_others(17 * kMebibyte, near), Stores::past_cache);
}

TEST(StoresIntoOthers, GoToMemoryWhereNoCacheIsShared) {
  EXPECT_EQ(stores_into_others(2 * kMebibyte, [] { return false; }), Stores::past_cache);
}

TEST(StoresIntoOthers, OfLittleAskNobodyHowFarHeIs) {
  bool asked = false;
  const auto near = [&] {
    asked = true;
    return false;
  };
  EXPECT_EQ(stores_into_others(kMebibyte, near), Stores::cached);
  EXPECT_FALSE(asked);
}

}  // namespace
}  // namespace lockstep

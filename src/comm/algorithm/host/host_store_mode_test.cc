#include "comm/algorithm/host/host_store_mode.h"

#include <cstddef>

#include <gtest/gtest.h>

namespace lockstep::comm {
namespace {

constexpr std::size_t kMebibyte = std::size_t{1} << 20;

TEST(StoresIntoOthers, GoThroughTheCacheThatIsSharedWhileItHoldsThem) {
  const auto near = [] { return true; };
  EXPECT_EQ(store_mode_for_others(2 * kMebibyte, near), StoreMode::cached);
  EXPECT_EQ(store_mode_for_others(16 * kMebibyte, near), StoreMode::cached);
  EXPECT_EQ(store_mode_for_others(17 * kMebibyte, near), StoreMode::non_temporal);
}

TEST(StoresIntoOthers, GoToMemoryWhereNoCacheIsShared) {
  EXPECT_EQ(store_mode_for_others(2 * kMebibyte, [] { return false; }), StoreMode::non_temporal);
}

TEST(StoresIntoOthers, OfLittleAskNobodyHowFarHeIs) {
  bool asked = false;
  const auto near = [&] {
    asked = true;
    return false;
  };
  EXPECT_EQ(store_mode_for_others(kMebibyte, near), StoreMode::cached);
  EXPECT_FALSE(asked);
}

}  // namespace
}  // namespace lockstep::comm

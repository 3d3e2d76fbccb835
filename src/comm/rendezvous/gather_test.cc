#include "comm/rendezvous/gather.h"

#include <thread>

#include <gtest/gtest.h>

#include "base/format.h"
#include "comm/rendezvous/local.h"

namespace lockstep::comm {
namespace {

TEST(Gather, EveryRankOfThreeBlocksGetsTheValuesOfAll) {
  LocalRendezvous place;
  constexpr int kSize = 600;
  const auto wait_for = [&](const std::string& key) {
    return place.get(key, Deadline::after(std::chrono::seconds(20)));
  };
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kSize; ++rank)
    ranks.emplace_back([&, rank] {
      const auto all = gather(place, wait_for, "name", rank, kSize, format("value of {}", rank));
      ASSERT_TRUE(all.has_value()) << all.error().message;
      ASSERT_EQ(std::ssize(*all), kSize);
      for (const int other : {0, 255, 256, kSize - 1})
        EXPECT_EQ((*all)[static_cast<std::size_t>(other)], format("value of {}", other));
    });
  for (auto& rank : ranks) rank.join();
}

TEST(Gather, FailsWhenAValueDoesNotCome) {
  LocalRendezvous place;
  const auto wait_for = [&](const std::string& key) {
    return place.get(key, Deadline::after(std::chrono::milliseconds(20)));
  };
  const auto all = gather(place, wait_for, "name", 0, 2, "value");
  ASSERT_FALSE(all.has_value());
  EXPECT_NE(all.error().message.find("name-1"), std::string::npos) << all.error().message;
}

}  // namespace
}  // namespace lockstep::comm

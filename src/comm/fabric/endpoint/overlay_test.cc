#include "comm/fabric/endpoint/overlay.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

namespace lockstep::comm {
namespace {

TEST(Overlay, NeighboursAreMutualAndFew) {
  for (const int size : {2, 3, 5, 9, 100, 1024, 16'384})
    for (int rank = 0; rank < size; rank += std::max(1, size / 50)) {
      const auto own = overlay_neighbours(rank, size);
      EXPECT_LE(own.size(), 14U);
      for (const int peer : own) {
        const auto theirs = overlay_neighbours(peer, size);
        EXPECT_TRUE(std::ranges::binary_search(theirs, rank)) << rank << " of " << size;
      }
    }
}

TEST(Overlay, AMessageReachesEveryRankInFewSteps) {
  for (const int size : {2, 7, 100, 1024, 16'384})
    for (int to = 0; to < size; to += std::max(1, size / 500)) {
      int steps = 0;
      for (int at = size / 3; at != to; ++steps) {
        at = next_hop(at, to, size, overlay_neighbours(at, size));
        ASSERT_GE(at, 0);
      }
      EXPECT_LE(steps, 14) << to << " of " << size;
    }
}

// A flood over the neighbours, as of a failure report, from one rank.
std::size_t reached(int size, const std::set<int>& lost, int from) {
  std::set<int> seen{from};
  std::vector<int> next{from};
  while (!next.empty()) {
    const int at = next.back();
    next.pop_back();
    for (const int peer : overlay_neighbours(at, size))
      if (!lost.contains(peer) && seen.insert(peer).second) next.push_back(peer);
  }
  return seen.size();
}

TEST(Overlay, AFailureReachesAllOthersWhenAWholeHostIsLost) {
  constexpr int kSize = 1024, kHost = 64;
  std::set<int> lost;
  for (int i = 0; i < kHost; ++i) lost.insert(100 + i);
  EXPECT_EQ(reached(kSize, lost, 0), static_cast<std::size_t>(kSize - kHost));
}

TEST(Overlay, AFailureReachesAllOthersWhenAllNeighboursButOneAreLost) {
  constexpr int kSize = 1024;
  const auto neighbours = overlay_neighbours(500, kSize);
  const std::set<int> lost(neighbours.begin() + 1, neighbours.end());
  EXPECT_EQ(reached(kSize, lost, 500), kSize - lost.size());
}

}  // namespace
}  // namespace lockstep::comm

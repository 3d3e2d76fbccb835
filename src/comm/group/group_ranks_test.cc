#include "comm/group/group_ranks.h"

#include <gtest/gtest.h>

namespace lockstep::comm {
namespace {

TEST(GroupRanks, AreCalledByWhatTheGroupIsAndByTheRanksOfTheRun) {
  EXPECT_EQ(text(GroupRanks::world(4)), "world");
  EXPECT_EQ(text(GroupRanks{"shard 1", {2, 3}}), "shard 1: ranks 2, 3");
  EXPECT_EQ(text(GroupRanks{"replicas of shard 1", {1, 3}}), "replicas of shard 1: ranks 1, 3");
  EXPECT_EQ(text(GroupRanks{"", {0, 2}}), "group of ranks 0, 2");
  EXPECT_EQ(text(GroupRanks{"", {5}}), "group of rank 5");
  EXPECT_EQ(text(GroupRanks{"shard 0", GroupRanks::world(64).ranks}),
            "shard 0: ranks 0, 1, 2, 3 and 60 more");
}

TEST(GroupRanks, OfAPartKeepTheirNumbersInTheRun) {
  const GroupRanks after_a_loss{"world", {0, 1, 3}};
  EXPECT_EQ(text(after_a_loss.subgroup({0, 2}, "replicas of shard 0")),
            "replicas of shard 0: ranks 0, 3");
}

TEST(Runs, ComeBackAsTheyWere) {
  const std::vector<std::pair<std::vector<int>, std::string>> all = {
      {{3}, "3"},
      {{0, 1, 2, 3}, "0-3"},
      {{0, 8, 16}, "0-16/8"},
      {{5, 2, 3, 4, 9, 7}, "5,2-4,9,7"},
  };
  for (const auto& [ranks, runs] : all) {
    EXPECT_EQ(to_rank_ranges(ranks), runs);
    EXPECT_EQ(parse_rank_ranges(runs, static_cast<int>(ranks.size()), 100), ranks) << runs;
  }
}

TEST(Runs, ThatMakeNoSenseAreRefused) {
  for (const auto* runs : {"", "-", "1-", "3-1", "0-9/0", "0-9/", "0,", "a", "0 1", "-1-0", "0-99",
                           "0-2147483647/2147483647", "99999999999"})
    EXPECT_FALSE(parse_rank_ranges(runs, 2, 50)) << runs;
}

}  // namespace
}  // namespace lockstep::comm

#include "comm/group/members.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Members, AreCalledByWhatTheGroupIsAndByTheRanksOfTheRun) {
  EXPECT_EQ(text(Members::world(4)), "world");
  EXPECT_EQ(text(Members{"shard 1", {2, 3}}), "shard 1: ranks 2, 3");
  EXPECT_EQ(text(Members{"replicas of shard 1", {1, 3}}), "replicas of shard 1: ranks 1, 3");
  EXPECT_EQ(text(Members{"", {0, 2}}), "group of ranks 0, 2");
  EXPECT_EQ(text(Members{"", {5}}), "group of rank 5");
  EXPECT_EQ(text(Members{"shard 0", Members::world(64).ranks}),
            "shard 0: ranks 0, 1, 2, 3 and 60 more");
}

TEST(Members, OfAPartKeepTheirNumbersInTheRun) {
  const Members after_a_loss{"world", {0, 1, 3}};
  EXPECT_EQ(text(after_a_loss.part({0, 2}, "replicas of shard 0")),
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
    EXPECT_EQ(to_runs(ranks), runs);
    EXPECT_EQ(parse_runs(runs, static_cast<int>(ranks.size()), 100), ranks) << runs;
  }
}

TEST(Runs, ThatMakeNoSenseAreRefused) {
  for (const auto* runs : {"", "-", "1-", "3-1", "0-9/0", "0-9/", "0,", "a", "0 1", "-1-0", "0-99",
                           "0-2147483647/2147483647", "99999999999"})
    EXPECT_FALSE(parse_runs(runs, 2, 50)) << runs;
}

}  // namespace
}  // namespace lockstep

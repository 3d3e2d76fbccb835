#include "text/nearest.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Nearest, TheDistanceCountsChangesAndSwaps) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("nodse", "nodes"), 1u);
}

TEST(Nearest, OnlyASlipIsCorrected) {
  EXPECT_EQ(nearest("nodez", {"name", "nodes"}), "nodes");
  EXPECT_EQ(nearest("NODES", {"name", "nodes"}), "nodes");
  EXPECT_EQ(nearest("zzz", {"name", "nodes"}), std::nullopt);
  EXPECT_EQ(nearest("x", {"y"}), std::nullopt);
  EXPECT_EQ(nearest("nodes", {}), std::nullopt);
  EXPECT_EQ(nearest(std::string(1'000'000, 'x'), {"nodes"}), std::nullopt);
  EXPECT_EQ(did_you_mean("tiemout", {"timeout"}), ", did you mean 'timeout'?");
}

}  // namespace
}  // namespace lockstep

// The shape of the trees.
#include "comm/algorithm/links/double_tree.h"

#include <algorithm>
#include <bit>

#include <gtest/gtest.h>

namespace lockstep::comm {
namespace {

TEST(TreeNode, ParentsAndChildrenKnowEachOtherUpToTheRoot) {
  for (std::size_t m = 1; m <= 130; ++m)
    for (std::size_t number = 1; number <= m; ++number) {
      const auto at = tree_node(m, number);
      if (at.parent == 0) {
        EXPECT_EQ(at.depth, 0u);
        continue;
      }
      const auto parent = tree_node(m, at.parent);
      EXPECT_EQ(number < at.parent ? parent.left : parent.right, number) << m;
      EXPECT_EQ(at.depth, parent.depth + 1) << m;
    }
}

TEST(TreeNode, OddNumbersAreLeavesAndNoneIsDeeperThanTheLogarithm) {
  for (std::size_t m = 1; m <= 130; ++m) {
    std::size_t deepest = 0;
    for (std::size_t number = 1; number <= m; ++number) {
      const auto at = tree_node(m, number);
      EXPECT_EQ(at.left == 0 && at.right == 0, number % 2 == 1) << number << " of " << m;
      deepest = std::max(deepest, at.depth);
    }
    EXPECT_EQ(deepest + 1, static_cast<std::size_t>(std::bit_width(m)));
  }
}

}  // namespace
}  // namespace lockstep::comm

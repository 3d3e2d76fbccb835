// Two trees (Sanders, Speck and Traeff 2009): two binary trees over the same ranks, each of which
// has children in one of them at most and is a leaf of the other. Half of the data goes through
// each, in pieces one after the other, so that all ranks send and receive all the time, and the way
// is as short as a tree is high. n ranks, S bytes, in P pieces (half of them in each tree).
//   all-reduce  up both trees to their roots and down again, in place.
//               Steps: P / 2 + 2 log2 n. Bytes sent by all ranks: 2 (n - 1) S; by one: S / 2 for
//               each parent and each child that it has in either tree, so 2 S at most.
//   broadcast   from the root, which stands above both trees of the others, down.
//               Steps: P / 2 + log2 n. Bytes sent by all: (n - 1) S; by one: S / 2 for each child,
//               S at most.
//   reduce      the same way up. The buffers of other ranks stay as they are.
// Bits: a rank adds its left child's sum, its own share and its right child's sum, in this order,
// at once; the result is computed once, at the root. 16-bit floats are rounded once at each rank.
//
// The trees. Numbers 1 to m stand in order, as in a search tree: an odd number is a leaf, an even
// one has children; its level is how often 2 divides it. In the second tree all stand in reverse (m
// even) or moved on by one (m odd), which makes odd numbers of even ones.
#pragma once

#include <cstddef>

#include "base/result.h"
#include "comm/algorithm/exchange.h"
#include "comm/algorithm/parts.h"
#include "comm/reduction/types.h"

namespace lockstep {

Result<void> double_tree_all_reduce(Exchange& exchange, Parts& parts, DataType type, ReduceOp op);
// Parts are filled at the root only.
Result<void> double_tree_broadcast(Exchange& exchange, Parts& parts, int root);
Result<void> double_tree_reduce(Exchange& exchange, Parts& parts, DataType type, ReduceOp op,
                                int root);

// One number's place in the tree over 1 to m; 0 where there is no such relative.
struct TreePlace {
  std::size_t parent = 0, left = 0, right = 0;
  std::size_t depth = 0;  // the root's is 0, the deepest bit_width(m) - 1
};
TreePlace place_in_tree(std::size_t m, std::size_t number);

}  // namespace lockstep

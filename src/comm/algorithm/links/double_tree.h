// Two trees (Sanders, Speck and Traeff 2009). Both are binary trees over the same ranks. A rank has
// children in at most one of them and is a leaf of the other. Half of the data goes through each
// tree, in pieces one after the other. So all ranks send and receive all the time, and the path
// length is the height of a tree. n ranks, S bytes, P pieces (half of them in each tree).
//   all-reduce  up both trees to their roots and down again, in place. Steps: P / 2 + 2 log2 n.
//               Bytes sent by all ranks: 2 (n - 1) S; by one: S / 2 for each parent and each child
//               that it has in either tree, so 2 S at most.
//   broadcast   from the root, which is above both trees of the others, down. Steps: P / 2 + log2
//               n. Bytes sent by all: (n - 1) S; by one: S / 2 for each child, S at most.
//   reduce      the same path up. The buffers of other ranks do not change.
// Bits: a rank adds its left child's sum, its own share and its right child's sum, in this order,
// in one operation. The result is computed once, at the root. 16-bit floats are rounded once at
// each rank.
//
// The trees. The numbers 1 to m are in order, as in a search tree. An odd number is a leaf, an even
// one has children. Its level is the number of times that 2 divides it. The second tree has the
// numbers in reverse (m even) or shifted by one (m odd), which exchanges odd and even numbers.
#pragma once

#include <cstddef>

#include "base/result.h"
#include "comm/algorithm/exchange/buffer_parts.h"
#include "comm/algorithm/exchange/message_exchange.h"
#include "comm/reduction/types.h"

namespace lockstep::comm {

Result<void> double_tree_all_reduce(MessageExchange& exchange, BufferParts& parts, DataType type,
                                    ReduceOp op);
// Only the root calls before_exchange().
Result<void> double_tree_broadcast(MessageExchange& exchange, BufferParts& parts, int root);
Result<void> double_tree_reduce(MessageExchange& exchange, BufferParts& parts, DataType type,
                                ReduceOp op, int root);

// The tree node of one number in the tree over 1 to m; 0 where there is no such relative.
struct TreeNode {
  std::size_t parent = 0, left = 0, right = 0;
  std::size_t depth = 0;  // the root's is 0, the deepest bit_width(m) - 1
};
TreeNode tree_node(std::size_t m, std::size_t number);

}  // namespace lockstep::comm

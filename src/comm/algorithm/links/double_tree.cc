#include "comm/algorithm/links/double_tree.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>

#include "comm/algorithm/exchange/copy.h"
#include "comm/algorithm/exchange/slice.h"
#include "comm/reduction/reduction.h"

namespace lockstep::comm {
namespace {

// Smaller pieces cost more in messages than they gain.
constexpr std::size_t kSmallestPiece = 16 * 1024;
// Filling and draining the trees then takes at most a quarter of the time.
constexpr std::size_t kPiecesPerLevel = 4;

constexpr int kNoRank = -1;

// The position of a rank in one of the trees.
struct TreePosition {
  int parent = kNoRank, left = kNoRank, right = kNoRank;  // ranks
  std::size_t depth = 0;
};

// The positions of ranks in the two trees: all ranks, or all but a root above them.
class DoubleTreeLayout {
 public:
  DoubleTreeLayout(const MessageExchange& exchange, std::optional<int> root)
      : ring_(exchange.ring()),
        root_index_(root ? ring_index_of(*root) : 0),
        has_root_(root.has_value()),
        nodes_(ring_.size() - (has_root_ ? 1 : 0)) {}

  // The depth of the deepest rank.
  std::size_t deepest() const {
    return static_cast<std::size_t>(std::bit_width(nodes_)) - (has_root_ ? 0 : 1);
  }

  TreePosition role(std::size_t tree, int rank) const {
    if (has_root_ && rank == ring_[root_index_])
      return {.right = rank_of(tree, std::bit_floor(nodes_))};
    const auto at = tree_node(nodes_, node_number(tree, ring_index_of(rank)));
    auto role = TreePosition{rank_of(tree, at.parent), rank_of(tree, at.left),
                             rank_of(tree, at.right), at.depth + (has_root_ ? 1 : 0)};
    if (has_root_ && at.parent == 0) role.parent = ring_[root_index_];
    return role;
  }

 private:
  std::size_t ring_index_of(int rank) const {
    return static_cast<std::size_t>(std::find(ring_.begin(), ring_.end(), rank) - ring_.begin());
  }
  std::size_t node_number(std::size_t tree, std::size_t ring_index) const {
    const auto i =
        has_root_ ? (ring_index + ring_.size() - root_index_ - 1) % ring_.size() : ring_index;
    if (tree == 0) return i + 1;
    return nodes_ % 2 == 0 ? nodes_ - i : (i + 1) % nodes_ + 1;
  }
  int rank_of(std::size_t tree, std::size_t number) const {
    if (number == 0) return kNoRank;
    const auto i = tree == 0         ? number - 1
                   : nodes_ % 2 == 0 ? nodes_ - number
                                     : (number + nodes_ - 2) % nodes_;
    return ring_[has_root_ ? (i + root_index_ + 1) % ring_.size() : i];
  }

  const std::span<const int> ring_;
  const std::size_t root_index_;  // ring index of the root above the trees
  const bool has_root_;
  const std::size_t nodes_;
};

// Time is divided into steps. A rank at depth d sends piece i up at step i + D - d, where D is the
// largest depth, and down at step i + D + d (broadcast: i + d). So the data that a rank needs at a
// step was sent at the step before.
//
// Why there is no deadlock: consider, of all waiting ranks, one at the earliest step. If it waits
// for a message, that message was sent at the step before, and all ranks are past that step. If it
// waits for a free slot: its peer has received all messages sent two steps ago. In a step a rank
// sends another rank at most two messages, one for each tree, so at most kSlots - 1 are in flight.
// Both ranks process them in the same order: by step, and within a step by tree.
class DoubleTree {
 public:
  DoubleTree(MessageExchange& exchange, BufferParts& parts, std::optional<int> root)
      : exchange_(exchange), parts_(parts) {
    const DoubleTreeLayout trees(exchange, root);
    deepest_ = trees.deepest();
    for (std::size_t tree = 0; tree < 2; ++tree) roles_[tree] = trees.role(tree, exchange.rank());
    const auto half = (parts.longest() + 1) / 2;
    const auto best = half * parts.element() / (kPiecesPerLevel * 2 * (deepest_ + 1));
    const auto most = exchange.piece_bytes();
    const auto room = std::clamp(best, std::min(kSmallestPiece, most), most);
    pieces_ = piece_count(half, room / parts.element());
  }

  DoubleTree& reduce_up(DataType type, ReduceOp op) {
    up_ = true;
    reduction_ = {type, op};
    return *this;
  }
  DoubleTree& broadcast_down() {
    down_ = true;
    return *this;
  }

  Result<void> run() {
    const auto all = pieces_ * parts_.count();
    const auto steps = all + (up_ ? deepest_ : 0) + (down_ ? deepest_ : 0);
    for (std::size_t step = 0; step < steps; ++step)
      for (std::size_t tree = 0; tree < 2; ++tree) {
        const auto depth = roles_[tree].depth;
        if (const auto delay = deepest_ - depth; up_ && step >= delay && step - delay < all)
          TRY(send_up(tree, step - delay));
        if (const auto delay = (up_ ? deepest_ : 0) + depth;
            down_ && step >= delay && step - delay < all)
          TRY(send_down(tree, step - delay));
      }
    return {};
  }

 private:
  // Messages are numbered for each tree and direction.
  enum class Direction { up, down };
  std::size_t message(std::size_t tree, Direction way, std::size_t piece) const {
    return piece * 4 + tree * 2 + (way == Direction::down ? 1 : 0);
  }
  ElementRange range_of(std::size_t tree, std::size_t piece) const {
    const auto half = cut(parts_.range(piece / pieces_), 2, tree);
    return cut(half, pieces_, piece % pieces_);
  }

  Result<void> prepare_part(std::size_t piece) {
    while (parts_prepared_ <= piece / pieces_) TRY(parts_.before_exchange(parts_prepared_++));
    return {};
  }

  Result<void> send_up(std::size_t tree, std::size_t piece) {
    TRY(prepare_part(piece));
    const auto& role = roles_[tree];
    const auto range = range_of(tree, piece);
    const auto bytes = range.count() * parts_.element();
    const auto number = message(tree, Direction::up, piece);
    auto* const own = parts_.at(range.begin);
    std::array<const std::byte*, 3> shares;
    std::size_t count = 0;
    if (role.left != kNoRank) shares[count++] = TRY(exchange_.receive(role.left, number, bytes));
    shares[count++] = own;
    if (role.right != kNoRank) shares[count++] = TRY(exchange_.receive(role.right, number, bytes));
    auto* const sum = role.parent == kNoRank ? own : TRY(exchange_.claim(role.parent));
    add(sum, std::span(shares).first(count), range.count());
    if (role.parent != kNoRank)
      exchange_.publish(role.parent, number, bytes);
    else
      finish(own, range.count(), reduction_.type, reduction_.op, exchange_.size());
    for (const int child : {role.left, role.right})
      if (child != kNoRank) exchange_.release(child);
    return {};
  }

  void add(std::byte* sum, std::span<const std::byte* const> shares, std::size_t count) const {
    if (count == 0) return;
    if (shares.size() > 1)
      reduce({&sum, 1}, shares, count, {reduction_.type, partial(reduction_.op)});
    else if (sum != shares[0])
      copy_bytes(sum, shares[0], count * parts_.element());
  }

  Result<void> send_down(std::size_t tree, std::size_t piece) {
    const auto& role = roles_[tree];
    const auto range = range_of(tree, piece);
    const auto bytes = range.count() * parts_.element();
    const auto number = message(tree, Direction::down, piece);
    const std::byte* source = parts_.at(range.begin);
    if (role.parent == kNoRank) {
      TRY(prepare_part(piece));
    } else {
      source = TRY(exchange_.receive(role.parent, number, bytes));
      copy_bytes(parts_.at(range.begin), source, bytes);
    }
    for (const int child : {role.left, role.right}) {
      if (child == kNoRank) continue;
      copy_bytes(TRY(exchange_.claim(child)), source, bytes);
      exchange_.publish(child, number, bytes);
    }
    if (role.parent != kNoRank) exchange_.release(role.parent);
    return finish_parts(tree, piece);
  }

  // The data that both trees have broadcast down is final.
  Result<void> finish_parts(std::size_t tree, std::size_t piece) {
    done_[tree] = piece + 1;
    const auto done = std::min(done_[0], done_[1]);
    while ((parts_finished_ + 1) * pieces_ <= done) TRY(parts_.after_exchange(parts_finished_++));
    return {};
  }

  MessageExchange& exchange_;
  BufferParts& parts_;
  bool up_ = false, down_ = false;
  ReductionSpec reduction_{};
  std::size_t deepest_ = 0;
  std::size_t pieces_ = 0;  // of a part, in each tree
  std::array<TreePosition, 2> roles_;
  std::size_t parts_prepared_ = 0, parts_finished_ = 0;  // parts
  std::array<std::size_t, 2> done_ = {};                 // pieces
};

}  // namespace

TreeNode tree_node(std::size_t m, std::size_t number) {
  TreeNode node;
  std::size_t before = 0, after = m;  // the subtree has the numbers before + 1 to after
  auto root = std::bit_floor(m);
  for (; root != number; ++node.depth) {
    node.parent = root;
    if (number < root)
      after = root - 1;
    else
      before = root;
    root = before + std::bit_floor(after - before);
  }
  if (root > before + 1) node.left = before + std::bit_floor(root - 1 - before);
  if (root < after) node.right = root + std::bit_floor(after - root);
  return node;
}

Result<void> double_tree_all_reduce(MessageExchange& exchange, BufferParts& parts, DataType type,
                                    ReduceOp op) {
  return DoubleTree(exchange, parts, std::nullopt).reduce_up(type, op).broadcast_down().run();
}

Result<void> double_tree_broadcast(MessageExchange& exchange, BufferParts& parts, int root) {
  return DoubleTree(exchange, parts, root).broadcast_down().run();
}

Result<void> double_tree_reduce(MessageExchange& exchange, BufferParts& parts, DataType type,
                                ReduceOp op, int root) {
  return DoubleTree(exchange, parts, root).reduce_up(type, op).run();
}

}  // namespace lockstep::comm

#include "comm/algorithm/double_tree.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>

#include "comm/algorithm/copy.h"
#include "comm/algorithm/slice.h"
#include "comm/reduction/reduction.h"

namespace lockstep {
namespace {

// Smaller pieces would cost more in messages than they gain.
constexpr std::size_t kSmallestPiece = 16 * 1024;
// Filling and emptying the trees then costs a quarter of the time at most.
constexpr std::size_t kPiecesPerLevel = 4;

constexpr int kNobody = -1;

// A rank in one of the trees.
struct Role {
  int parent = kNobody, left = kNobody, right = kNobody;  // ranks
  std::size_t depth = 0;
};

// Who stands where in the two trees: all ranks, or all but a root above them.
class Trees {
 public:
  Trees(const Exchange& exchange, std::optional<int> root)
      : ring_(exchange.ring()),
        above_(root ? place_of(*root) : 0),
        has_root_(root.has_value()),
        nodes_(ring_.size() - (has_root_ ? 1 : 0)) {}

  // How deep the deepest rank stands.
  std::size_t deepest() const {
    return static_cast<std::size_t>(std::bit_width(nodes_)) - (has_root_ ? 0 : 1);
  }

  Role role(std::size_t tree, int rank) const {
    if (has_root_ && rank == ring_[above_]) return {.right = rank_of(tree, std::bit_floor(nodes_))};
    const auto at = place_in_tree(nodes_, number(tree, place_of(rank)));
    auto role = Role{rank_of(tree, at.parent), rank_of(tree, at.left), rank_of(tree, at.right),
                     at.depth + (has_root_ ? 1 : 0)};
    if (has_root_ && at.parent == 0) role.parent = ring_[above_];
    return role;
  }

 private:
  std::size_t place_of(int rank) const {
    return static_cast<std::size_t>(std::find(ring_.begin(), ring_.end(), rank) - ring_.begin());
  }
  std::size_t number(std::size_t tree, std::size_t place) const {
    const auto i = has_root_ ? (place + ring_.size() - above_ - 1) % ring_.size() : place;
    if (tree == 0) return i + 1;
    return nodes_ % 2 == 0 ? nodes_ - i : (i + 1) % nodes_ + 1;
  }
  int rank_of(std::size_t tree, std::size_t number) const {
    if (number == 0) return kNobody;
    const auto i = tree == 0         ? number - 1
                   : nodes_ % 2 == 0 ? nodes_ - number
                                     : (number + nodes_ - 2) % nodes_;
    return ring_[has_root_ ? (i + above_ + 1) % ring_.size() : i];
  }

  const std::span<const int> ring_;
  const std::size_t above_;  // place of the root above the trees
  const bool has_root_;
  const std::size_t nodes_;
};

// Time goes in steps. A rank at depth d sends piece i up at step i + D - d, D being the deepest,
// and down at step i + D + d (broadcast: i + d): so what a rank needs at a step was sent at the
// step before.
//
// Why it does not get stuck: of ranks that wait, look at one at the earliest step. What it waits to
// receive was sent at the step before, and everybody is past that. What it waits to have room for:
// its peer has taken all that was sent two steps ago, and in a step a rank sends another at most
// two messages, one a tree, so that at most kSlots - 1 are under way. Both take them in the same
// order: by step, in a step by tree.
class DoubleTree {
 public:
  DoubleTree(Exchange& exchange, Parts& parts, std::optional<int> root)
      : exchange_(exchange), parts_(parts) {
    const Trees trees(exchange, root);
    deepest_ = trees.deepest();
    for (std::size_t tree = 0; tree < 2; ++tree) roles_[tree] = trees.role(tree, exchange.rank());
    const auto half = (parts.longest() + 1) / 2;
    const auto best = half * parts.element() / (kPiecesPerLevel * 2 * (deepest_ + 1));
    const auto most = exchange.piece_bytes();
    const auto room = std::clamp(best, std::min(kSmallestPiece, most), most);
    pieces_ = pieces_of(half, room / parts.element());
  }

  DoubleTree& up(DataType type, ReduceOp op) {
    up_ = true;
    reduction_ = {type, op};
    return *this;
  }
  DoubleTree& down() {
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
  enum class Way { up, down };
  std::size_t message(std::size_t tree, Way way, std::size_t piece) const {
    return piece * 4 + tree * 2 + (way == Way::down ? 1 : 0);
  }
  ElementRange range_of(std::size_t tree, std::size_t piece) const {
    const auto half = cut(parts_.range(piece / pieces_), 2, tree);
    return cut(half, pieces_, piece % pieces_);
  }

  Result<void> fill(std::size_t piece) {
    while (filled_ <= piece / pieces_) TRY(parts_.fill(filled_++));
    return {};
  }

  Result<void> send_up(std::size_t tree, std::size_t piece) {
    TRY(fill(piece));
    const auto& role = roles_[tree];
    const auto range = range_of(tree, piece);
    const auto bytes = range.count() * parts_.element();
    const auto number = message(tree, Way::up, piece);
    auto* const own = parts_.at(range.begin);
    std::array<const std::byte*, 3> shares;
    std::size_t count = 0;
    if (role.left != kNobody) shares[count++] = TRY(exchange_.receive(role.left, number, bytes));
    shares[count++] = own;
    if (role.right != kNobody) shares[count++] = TRY(exchange_.receive(role.right, number, bytes));
    auto* const sum = role.parent == kNobody ? own : TRY(exchange_.claim(role.parent));
    add(sum, std::span(shares).first(count), range.count());
    if (role.parent != kNobody)
      exchange_.publish(role.parent, number, bytes);
    else
      finish(own, range.count(), reduction_.type, reduction_.op, exchange_.size());
    for (const int child : {role.left, role.right})
      if (child != kNobody) exchange_.release(child);
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
    const auto number = message(tree, Way::down, piece);
    const std::byte* source = parts_.at(range.begin);
    if (role.parent == kNobody) {
      TRY(fill(piece));
    } else {
      source = TRY(exchange_.receive(role.parent, number, bytes));
      copy_bytes(parts_.at(range.begin), source, bytes);
    }
    for (const int child : {role.left, role.right}) {
      if (child == kNobody) continue;
      copy_bytes(TRY(exchange_.claim(child)), source, bytes);
      exchange_.publish(child, number, bytes);
    }
    if (role.parent != kNobody) exchange_.release(role.parent);
    return spread(tree, piece);
  }

  // What both trees have brought down is final.
  Result<void> spread(std::size_t tree, std::size_t piece) {
    done_[tree] = piece + 1;
    const auto done = std::min(done_[0], done_[1]);
    while ((spread_ + 1) * pieces_ <= done) TRY(parts_.spread(spread_++));
    return {};
  }

  Exchange& exchange_;
  Parts& parts_;
  bool up_ = false, down_ = false;
  ReductionSpec reduction_{};
  std::size_t deepest_ = 0;
  std::size_t pieces_ = 0;  // of a part, in each tree
  std::array<Role, 2> roles_;
  std::size_t filled_ = 0, spread_ = 0;   // parts
  std::array<std::size_t, 2> done_ = {};  // pieces
};

}  // namespace

TreePlace place_in_tree(std::size_t m, std::size_t number) {
  TreePlace place;
  std::size_t before = 0, after = m;  // the numbers of the subtree are before + 1 to after
  auto root = std::bit_floor(m);
  for (; root != number; ++place.depth) {
    place.parent = root;
    if (number < root)
      after = root - 1;
    else
      before = root;
    root = before + std::bit_floor(after - before);
  }
  if (root > before + 1) place.left = before + std::bit_floor(root - 1 - before);
  if (root < after) place.right = root + std::bit_floor(after - root);
  return place;
}

Result<void> double_tree_all_reduce(Exchange& exchange, Parts& parts, DataType type, ReduceOp op) {
  return DoubleTree(exchange, parts, std::nullopt).up(type, op).down().run();
}

Result<void> double_tree_broadcast(Exchange& exchange, Parts& parts, int root) {
  return DoubleTree(exchange, parts, root).down().run();
}

Result<void> double_tree_reduce(Exchange& exchange, Parts& parts, DataType type, ReduceOp op,
                                int root) {
  return DoubleTree(exchange, parts, root).up(type, op).run();
}

}  // namespace lockstep

#include "comm/choice/predict.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "comm/algorithm/ring/ring.h"
#include "comm/choice/pieces.h"
#include "comm/fabric/link.h"

namespace lockstep::comm {
namespace {

// Some standard libraries return an unsigned number.
int bits_of(int n) { return static_cast<int>(std::bit_width(static_cast<unsigned>(n))); }
int log2_up(int n) { return bits_of(n - 1); }

bool reduces(Operation operation) {
  return operation == Operation::all_reduce || operation == Operation::reduce ||
         operation == Operation::reduce_scatter;
}

bool exchanges_in_pairs(Algorithm algorithm) {
  return algorithm == Algorithm::recursive_doubling || algorithm == Algorithm::halving_doubling;
}

// The work of a rank in a step: with a piece of the tree in which it is an inner node, and of the
// tree in which it is a leaf.
struct TreeWork {
  int messages = 0;  // sent, and as many received
  int reduced = 0;   // pieces
  int ways = 1;      // up, down, or both
};

TreeWork tree_work(Operation operation) {
  if (operation == Operation::broadcast) return {2, 0, 1};
  if (operation == Operation::reduce) return {2, 2, 1};
  return {4, 2, 2};
}

// The average result of rounding up. It is continuous, so that a byte more or less never changes
// much.
double rounded_up(double number) { return std::max(1.0, std::min(2 * number - 1, number + 0.5)); }

// A level's cost, the kernel buffer size of a connection, and the processor time for each byte that
// it sends while it receives another.
struct PathCost : LevelCost {
  double socket_buffer_bytes = 0;
  double work_per_byte = 0;
};

// Between ranks of a host by messages: each byte is copied into a slot and out of it. Each copy
// takes as long as reducing the byte. The measured cost is that of zero-copy.
PathCost shm_path_cost(const Costs& costs) {
  PathCost way{costs.within_host};
  way.per_byte = std::max(way.per_byte, 2 * costs.reduction);
  return way;
}

double chain_room(double bytes, int ranks, double piece_bytes) {
  return static_cast<double>(chain_piece_bytes(static_cast<std::size_t>(bytes),
                                               static_cast<std::size_t>(ranks),
                                               static_cast<std::size_t>(piece_bytes)));
}

// The times of messages, rounds and whole algorithms for one group.
class Model {
 public:
  Model(const GroupShape& group, const Costs& costs, std::size_t piece_bytes)
      : n_(group.ranks),
        hosts_(group.hosts),
        most_(group.ranks_per_host_max),
        within_(shm_path_cost(costs)),
        between_{costs.between_hosts, kSocketBufferBytes, kTcpWork * costs.reduction},
        gamma_(costs.reduction),
        piece_(static_cast<double>(piece_bytes)) {}

  double time(Algorithm algorithm, Operation operation, double bytes) const {
    switch (algorithm) {
      case Algorithm::flat:
        return flat(bytes);
      case Algorithm::ring:
        return ring(operation, bytes);
      case Algorithm::recursive_doubling:
        return doubling(bytes);
      case Algorithm::halving_doubling:
        return halving(bytes);
      case Algorithm::double_tree:
        return double_tree(tree_work(operation), bytes);
      case Algorithm::pairwise:
        return pairwise(operation, bytes);
      case Algorithm::dissemination:
        return log2_up(n_) * slowest().latency;
    }
    LS_CHECK(false);
    return 0;
  }

 private:
  // The cost of messages in pairs over this distance, a power of two, in the ring order, where
  // ranks of a host are adjacent. When pairs reach across hosts, up to that many ranks of a host
  // send to others.
  PathCost level(int distance) const {
    if (hosts_ == 1 || most_ % (2 * distance) == 0) return within_;
    PathCost cost = between_;
    cost.per_byte *= std::min(most_, distance);
    return cost;
  }
  // The same for one rank of each host.
  const PathCost& slowest() const { return hosts_ > 1 ? between_ : within_; }

  // A single message; `reduced` times its length is reduced after it has arrived.
  double single_message(const PathCost& cost, double bytes, int reduced) const {
    return cost.latency + bytes * (cost.per_byte + reduced * gamma_);
  }
  // The interval between two pieces of a rank that sends and receives: the limit is the wire, the
  // processor, or the link. A kernel buffer is free again after a message and its acknowledgement.
  // Where kernels buffer nothing, this holds for a slot.
  double piece_interval(const PathCost& cost, double bytes, double reduced) const {
    const double wire = bytes * cost.per_byte;
    const double processor = 2 * cost.overhead + bytes * (cost.work_per_byte + reduced * gamma_);
    const double to_and_fro = 2 * (cost.latency - cost.overhead);
    const double link = cost.socket_buffer_bytes > 0
                            ? bytes / cost.socket_buffer_bytes * to_and_fro
                            : (to_and_fro + wire) / static_cast<double>(kSlots);
    return std::max({wire, processor, link});
  }
  double pieces_of(double bytes) const { return rounded_up(bytes / piece_); }
  // Two ranks exchange this many bytes, in pieces.
  double exchange(const PathCost& cost, double bytes, int reduced) const {
    const double pieces = pieces_of(bytes), piece = bytes / pieces;
    return single_message(cost, piece, reduced) +
           (pieces - 1) * piece_interval(cost, piece, reduced);
  }

  // A rank sends to all, as fast as its processor and its host's wire allow, and then receives from
  // all. The latency already includes one message's part of both.
  double flat(double bytes) const {
    const int near = hosts_ == 1 ? n_ - 1 : most_ - 1, far = n_ - 1 - near;
    const auto messages = [&](int count, const PathCost& cost, int sharing) {
      return count * (std::max(cost.overhead, sharing * bytes * cost.per_byte) + cost.overhead);
    };
    const double all = far > 0 ? messages(near, within_, 1) + messages(far - 1, between_, most_)
                               : messages(near - 1, within_, 1);
    return single_message(slowest(), bytes, n_ - 1) + all;
  }

  // ring.h: `steps` around the ring with chunks in pieces, of which `depth` are in flight.
  // `reducing` is the share of the steps that reduce.
  double ring_steps(double steps, double chunk, double reducing) const {
    const auto depth = static_cast<double>(
        ring_depth(static_cast<std::size_t>(chunk), static_cast<std::size_t>(piece_)));
    const double turns = rounded_up(pieces_of(chunk) / depth);
    const double piece = chunk / (turns * depth);
    const double far = hosts_ > 1 ? static_cast<double>(hosts_) / n_ : 0;
    const double lap = far * single_message(between_, piece, 0) +
                       (1 - far) * single_message(within_, piece, 0) + reducing * piece * gamma_;
    // The last of the pieces in flight arrives after the first, by the interval of each.
    const double each = piece_interval(slowest(), piece, reducing);
    return std::max(turns * steps * lap + (depth - 1) * each,
                    turns * steps * depth * each + slowest().latency);
  }
  double ring(Operation operation, double bytes) const {
    if (operation == Operation::all_reduce) return ring_steps(2.0 * (n_ - 1), bytes / n_, 0.5);
    if (operation == Operation::reduce_scatter) return ring_steps(n_ - 1, bytes, 1);
    if (operation == Operation::all_gather) return ring_steps(n_ - 1, bytes, 0);
    return chain(operation == Operation::reduce ? 1 : 0, bytes);
  }
  double chain(int reduced, double bytes) const {
    const double pieces = std::max(1.0, bytes / chain_room(bytes, n_, piece_));
    const double piece = bytes / pieces;
    const int far = hosts_ > 1 ? hosts_ - 1 : 0;
    return far * single_message(between_, piece, reduced) +
           (n_ - 1 - far) * single_message(within_, piece, reduced) +
           (pieces - 1) * piece_interval(slowest(), piece, reduced);
  }

  // The largest power of two of the n ranks takes part. Each other rank sends its data to a proxy
  // before, and receives the result after.
  int rounds() const { return bits_of(n_) - 1; }
  double folding(double bytes) const {
    if (n_ == 1 << rounds()) return 0;
    return exchange(level(1), bytes, 1) + exchange(level(1), bytes, 0);
  }

  double doubling(double bytes) const {
    double sum = folding(bytes);
    for (int k = 0; k < rounds(); ++k) sum += exchange(level(1 << k), bytes, 1);
    // If there are few extra ranks, the last partners of their proxies have nothing to wait for.
    const int cores = 1 << rounds(), extras = n_ - cores;
    return extras > 0 && extras <= cores / 2 ? sum - level(1).latency : sum;
  }
  // S bytes: half in the first round, then a quarter, ...; and the same in reverse.
  double halving(double bytes) const {
    double sum = folding(bytes), part = bytes / 2;
    for (int k = 0; k < rounds(); ++k, part /= 2)
      sum += exchange(level(1 << k), part, 1) + exchange(level(1 << k), part, 0);
    return sum;
  }

  // double_tree.cc: time is divided into steps. In each step a rank does its work with a piece of
  // each tree, and each needs data that was sent in the step before.
  double double_tree(const TreeWork& work, double bytes) const {
    constexpr double kSmallestPiece = 16 * 1024, kPiecesPerLevel = 4;
    const double half = bytes / 2;
    const int deepest = log2_up(work.ways == 2 ? n_ / 2 + 1 : n_);
    const double best = half / (kPiecesPerLevel * 2 * (deepest + 1));
    const double room = std::clamp(best, std::min(kSmallestPiece, piece_), piece_);
    const double pieces = std::max(1.0, half / room), piece = half / pieces;
    return work.ways * tree_way(work, deepest, piece) + (pieces - 1) * tree_step(work, piece);
  }
  // To the next level of a tree, where a rank has two children.
  double tree_hop(const TreeWork& work, const PathCost& cost, double piece) const {
    return single_message(cost, piece, work.reduced) +
           std::max(piece * cost.per_byte, cost.overhead);
  }
  // Once up or down. Few of the levels are within the hosts.
  double tree_way(const TreeWork& work, int deepest, double piece) const {
    const int far = hosts_ == 1 ? 0 : std::min(deepest, log2_up(hosts_) + (most_ > 1 ? 1 : 0));
    const auto& cost = slowest();
    const double way =
        far * tree_hop(work, cost, piece) + (deepest - far) * tree_hop(work, within_, piece);
    // In the deepest level of a tree that is not full, no rank on the longest path has two
    // children.
    const int nodes = work.ways == 2 ? n_ : n_ - 1;  // without a broadcast's root
    const bool full = std::has_single_bit(static_cast<unsigned>(nodes) + 1);
    return full ? way : way - std::max(piece * cost.per_byte, cost.overhead);
  }
  // Where hosts have several ranks, more paths share their wires.
  double tree_step(const TreeWork& work, double piece) const {
    const auto& cost = slowest();
    const int messages = std::min(work.messages, n_);
    const int on_wire = most_ > 1 && hosts_ > 1 ? work.messages + 2 : messages;
    const double wire = on_wire * piece * cost.per_byte;
    const double processor =
        messages * (2 * cost.overhead + piece * cost.work_per_byte) + work.reduced * piece * gamma_;
    const double hop = n_ == 2 ? 0 : tree_hop(work, cost, piece);
    return std::max({hop, wire, processor});
  }

  double pairwise(Operation operation, double block) const {
    const int near = hosts_ == 1 ? n_ - 1 : most_ - 1, far = n_ - 1 - near;
    if (operation == Operation::all_to_all)
      return near * exchange(within_, block, 0) +
             (far > 0 ? far * exchange(level(most_), block, 0) : 0);
    const auto& cost = slowest();
    return single_message(cost, block, 0) + (near + far - 1) * piece_interval(cost, block, 0);
  }

  const int n_, hosts_, most_;
  const PathCost within_, between_;
  const double gamma_, piece_;
};

// host_slices.h: little data has one leader. For large data each leader of a host has a slice, in
// parts. So the work within the hosts overlaps with the messages of other parts, except for the
// first and the last part.
struct Slices {
  double leaders = 1, parts = 1;
};
Slices slices_of(double bytes, const GroupShape& group, double part_bytes) {
  constexpr double kBringBytes = 4096;
  if (bytes <= kBringBytes) return {};
  const double leaders = group.ranks_per_host_min;
  return {leaders, std::max(1.0, bytes / leaders / part_bytes)};
}

// All `bytes` of a host pass through its shared memory before and after the exchange.
double within_hosts(Operation operation, double bytes, double parts, const Costs& costs) {
  const auto& cost = costs.within_host;
  const double per_byte = cost.per_byte + (reduces(operation) ? costs.reduction : 0);
  return 2 * cost.latency + bytes / parts * per_byte;
}

double hierarchical(const CallPlan& plan, Operation operation, double bytes,
                    const GroupShape& group, Costs costs, std::size_t piece_bytes) {
  const bool in_blocks =
      operation == Operation::reduce_scatter || operation == Operation::all_gather;
  constexpr double kPartBytes = 2 << 20;
  const double part_bytes = operation == Operation::reduce
                                ? chain_room(bytes / group.ranks_per_host_min, group.hosts,
                                             static_cast<double>(piece_bytes))
                                : kPartBytes;
  // In collectives in blocks each rank has a rail, and the ranks of small hosts have several, one
  // after the other.
  const double rounds =
      in_blocks
          ? std::ceil(static_cast<double>(group.ranks_per_host_max) / group.ranks_per_host_min)
          : 1;
  const auto [leaders, parts] = in_blocks ? Slices{group.ranks_per_host_max / rounds, 1}
                                          : slices_of(bytes, group, part_bytes);
  const double within =
      within_hosts(operation, in_blocks ? bytes * group.ranks : bytes, parts, costs);
  costs.between_hosts.per_byte *= leaders;  // the leaders share the wire
  const GroupShape one_rank_per_host{group.hosts, group.hosts, 1, 1};
  const double share = in_blocks ? bytes : bytes / leaders;
  // Algorithms that exchange in pairs end a part before they begin the next.
  const double in_turn = exchanges_in_pairs(plan.algorithm) ? parts : 1;
  const double between =
      in_turn *
      Model(one_rank_per_host, costs, piece_bytes).time(plan.algorithm, operation, share / in_turn);
  return within + rounds * between;
}

}  // namespace

Seconds predict(const CallPlan& plan, Operation operation, std::size_t bytes,
                const GroupShape& group, const Costs& costs,
                std::optional<std::size_t> given_piece_bytes) {
  LS_CHECK(fits(plan, operation, bytes, group));
  const auto share = static_cast<double>(bytes);
  const auto piece_bytes = given_piece_bytes.value_or(piece_bytes_between_hosts(costs));
  return Seconds(plan.hierarchical
                     ? hierarchical(plan, operation, share, group, costs, piece_bytes)
                     : Model(group, costs, piece_bytes).time(plan.algorithm, operation, share));
}

}  // namespace lockstep::comm

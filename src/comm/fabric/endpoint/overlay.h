// Overlay: which ranks of a large group are connected from the start (docs/design/large-groups.md).
//
// The ranks stand in a ring. Each is connected to those at the distances 1, 4, 16, 64 and so on,
// both ways: 2 log4 n neighbours. Every message that goes to the neighbour nearest to its
// destination arrives, after at most 2 log4 n steps. The ranks stay connected to each other while
// fewer of them are lost than each has neighbours, and when a whole host is lost.
#pragma once

#include <array>
#include <span>
#include <vector>

namespace lockstep::comm {

// In groups of up to this size each rank is connected to all others from the start.
inline constexpr int kFullMeshRanks = 64;

// Ascending, without `rank`.
std::vector<int> overlay_neighbours(int rank, int size);

// The ranks that decide on the reason of a failure, the first that is there: far from each other in
// the ring, so that a host whose ranks follow each other has only one of them.
std::array<int, 3> deciding_ranks(int size);

// The rank of `reachable` that is nearest to the destination, and nearer than `rank`; -1: none.
int next_hop(int rank, int destination, int size, std::span<const int> reachable);

}  // namespace lockstep::comm

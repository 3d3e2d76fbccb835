#include "comm/fabric/endpoint/overlay.h"

#include <algorithm>
#include <cstdlib>
#include <set>

namespace lockstep::comm {
namespace {

constexpr int kStrideFactor = 4;

int ring_distance(int a, int b, int size) {
  const int straight = std::abs(a - b);
  return std::min(straight, size - straight);
}

}  // namespace

std::vector<int> overlay_neighbours(int rank, int size) {
  std::set<int> neighbours;
  for (int stride = 1; stride < size; stride *= kStrideFactor)
    neighbours.insert({(rank + stride) % size, (rank + size - stride) % size});
  neighbours.erase(rank);
  return {neighbours.begin(), neighbours.end()};
}

std::array<int, 3> deciding_ranks(int size) { return {0, size / 3, 2 * size / 3}; }

int next_hop(int rank, int destination, int size, std::span<const int> reachable) {
  int best = -1;
  int nearest = ring_distance(rank, destination, size);
  for (const int one : reachable) {
    const int distance = ring_distance(one, destination, size);
    if (distance >= nearest) continue;
    best = one;
    nearest = distance;
  }
  return best;
}

}  // namespace lockstep::comm

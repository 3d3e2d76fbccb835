#include "comm/algorithm/choose.h"

#include "comm/algorithm/flat_all_reduce.h"

namespace lockstep {
namespace {

// With more ranks, n - 1 messages from everybody to everybody cost more than the ring's steps.
constexpr int kFlatRanks = 16;

Algorithm choose_algorithm(Operation operation, std::size_t bytes, int ranks) {
  switch (operation) {
    case Operation::all_reduce:
      return bytes <= kFlatBytes && ranks <= kFlatRanks ? Algorithm::flat : Algorithm::ring;
    case Operation::gather:
    case Operation::scatter:
    case Operation::all_to_all:
      return Algorithm::pairwise;
    case Operation::barrier:
      return Algorithm::dissemination;
    default:
      return Algorithm::ring;
  }
}

}  // namespace

// Hierarchical wherever it can be: it sends less between hosts, in fewer steps.
Plan choose(Operation operation, std::size_t bytes, const GroupShape& group) {
  const Plan between_hosts{choose_algorithm(operation, bytes, group.hosts), true};
  if (fits(between_hosts, operation, bytes, group)) return between_hosts;
  return {choose_algorithm(operation, bytes, group.ranks), false};
}

}  // namespace lockstep

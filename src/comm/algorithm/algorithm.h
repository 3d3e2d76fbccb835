// The algorithms for the collectives of a group on several hosts, their names, and where each may
// be used. Within one host there is no choice: see host_reduce.h and host_copy.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "comm/algorithm/collective_call.h"

namespace lockstep::comm {

enum class Algorithm : std::uint8_t {
  flat,                // flat_all_reduce.h
  ring,                // ring.h
  recursive_doubling,  // recursive_doubling.h
  halving_doubling,    // halving_doubling.h
  double_tree,         // double_tree.h
  pairwise,            // pairwise.h
  dissemination,       // dissemination_barrier.h
};
inline constexpr Algorithm kAlgorithms[] = {Algorithm::flat,
                                            Algorithm::ring,
                                            Algorithm::recursive_doubling,
                                            Algorithm::halving_doubling,
                                            Algorithm::double_tree,
                                            Algorithm::pairwise,
                                            Algorithm::dissemination};
std::string_view text(Algorithm algorithm);  // "double_tree"

// How a call is executed. Either an algorithm runs among all ranks, or the call is hierarchical:
// ranks of a host use their shared memory, and the algorithm runs between the hosts.
struct CallPlan {
  Algorithm algorithm = Algorithm::ring;
  bool hierarchical = false;
  bool operator==(const CallPlan&) const = default;
};
std::string text(const CallPlan& plan);  // "double_tree", "ring,hierarchical"
// Parses the result of text(). The error lists the valid names.
Result<CallPlan> parse_plan(std::string_view plan_text);

// The properties of a group that the choice depends on. Equal on all of its ranks.
struct GroupShape {
  int ranks = 1;
  int hosts = 1;
  int ranks_per_host_min = 1;  // ranks of a host
  int ranks_per_host_max = 1;
  bool is_uniform() const { return ranks_per_host_min == ranks_per_host_max; }
  bool operator==(const GroupShape&) const = default;
};
// hosts: as MessageExchange::hosts().
GroupShape shape_of(std::span<const std::vector<int>> hosts);

// True if a plan can execute such a call. bytes: of the call header, for one rank's share.
bool fits(const CallPlan& plan, Operation operation, std::size_t bytes, const GroupShape& group);
// All plans that fit: at least one for every collective.
std::vector<CallPlan> fitting_plans(Operation operation, std::size_t bytes,
                                    const GroupShape& group);

}  // namespace lockstep::comm

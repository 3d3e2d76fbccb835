// Which algorithms there are for the collectives of a group on several hosts, what they are called,
// and where each may be used. (Within one host there is nothing to choose: host_reduce.h and
// host_move.h.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "comm/algorithm/call.h"

namespace lockstep {

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

// How a call is carried out: an algorithm among all ranks; or hierarchically: within each host in
// the memory that its ranks share, and by this algorithm between the hosts.
struct CallPlan {
  Algorithm algorithm = Algorithm::ring;
  bool hierarchical = false;
  bool operator==(const CallPlan&) const = default;
};
std::string text(const CallPlan& plan);  // "double_tree", "ring,hierarchical"
// What text() gave. An error lists the names that there are.
Result<CallPlan> parse_plan(std::string_view words);

// A group, as far as the choice depends on it. Equal on all of its ranks.
struct GroupShape {
  int ranks = 1;
  int hosts = 1;
  int fewest = 1;  // ranks of a host
  int most = 1;
  bool even() const { return fewest == most; }
  bool operator==(const GroupShape&) const = default;
};
// hosts: as Exchange::hosts().
GroupShape shape_of(std::span<const std::vector<int>> hosts);

// Whether a plan can carry out such a call. bytes: the call header's, of a rank's share.
bool fits(const CallPlan& plan, Operation operation, std::size_t bytes, const GroupShape& group);
// All that fit: at least one for every collective.
std::vector<CallPlan> fitting_plans(Operation operation, std::size_t bytes,
                                    const GroupShape& group);

}  // namespace lockstep

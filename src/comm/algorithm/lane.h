// lane_of: the ranks that have the same place on all hosts, which exchange between hosts what is
// theirs. Of a collective with a root, places on the root's host count from the root on, around.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "comm/algorithm/exchange.h"

namespace lockstep {

// In the order of the hosts. place: less than the ranks of any host.
inline std::vector<int> lane_of(const Exchange& exchange, std::size_t place) {
  std::vector<int> lane;
  for (const auto& ranks : exchange.hosts()) lane.push_back(ranks[place]);
  return lane;
}

// A rank as its place on one of the hosts.
struct HostPlace {
  std::size_t host = 0, place = 0;
};
inline HostPlace where_is(std::span<const std::vector<int>> hosts, int rank) {
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    const auto& ranks = hosts[host];
    const auto found = std::find(ranks.begin(), ranks.end(), rank);
    if (found != ranks.end()) return {host, static_cast<std::size_t>(found - ranks.begin())};
  }
  return {};
}

inline std::vector<int> lane_from(const Exchange& exchange, const HostPlace& root,
                                  std::size_t place) {
  const auto hosts = exchange.hosts();
  std::vector<int> lane;
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    const auto first = host == root.host ? root.place : 0;
    lane.push_back(hosts[host][(first + place) % hosts[host].size()]);
  }
  return lane;
}

// The lanes of collectives in blocks: lane p has the blocks of the ranks with place p. Where a host
// of m ranks has no such rank, its rank p mod m stands in, which has no block there. So many lanes
// at once as the smallest host has ranks are a round, in which no rank is in two of them; all hosts
// go from round to round together, so that what the ranks of a host do in a round together waits
// for no other round.
class BlockLanes {
 public:
  static constexpr int kNoBlock = -1;

  explicit BlockLanes(std::span<const std::vector<int>> hosts) : hosts_(hosts) {
    for (const auto& ranks : hosts) {
      lanes_ = std::max(lanes_, ranks.size());
      at_once_ = std::min(at_once_, ranks.size());
    }
  }

  std::size_t rounds() const { return (lanes_ + at_once_ - 1) / at_once_; }
  // The lane in a round of the rank with this place on a host of so many; nothing: it has none.
  std::optional<std::size_t> lane(std::size_t round, std::size_t place, std::size_t ranks) const {
    const auto begin = round * at_once_, end = std::min(lanes_, begin + at_once_);
    const auto lane = begin + (place + ranks - begin % ranks) % ranks;
    return lane < end ? std::optional(lane) : std::nullopt;
  }
  // On each host: who is in the lane, and whose block it brings.
  std::vector<int> members(std::size_t lane) const {
    std::vector<int> members;
    for (const auto& ranks : hosts_) members.push_back(ranks[lane % ranks.size()]);
    return members;
  }
  std::vector<int> owners(std::size_t lane) const {
    std::vector<int> owners;
    for (const auto& ranks : hosts_) owners.push_back(lane < ranks.size() ? ranks[lane] : kNoBlock);
    return owners;
  }

 private:
  const std::span<const std::vector<int>> hosts_;
  std::size_t lanes_ = 0;
  std::size_t at_once_ = std::numeric_limits<std::size_t>::max();
};

}  // namespace lockstep

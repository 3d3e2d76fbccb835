// rail_ranks: the ranks with the same local rank on all hosts, which exchange their data between
// hosts. In a collective with a root, local ranks on the root's host count from the root, with
// wrap-around.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "comm/algorithm/exchange/message_exchange.h"

namespace lockstep::comm {

// In the order of the hosts. local_rank: less than the rank count of any host.
inline std::vector<int> rail_ranks(const MessageExchange& exchange, std::size_t local_rank) {
  std::vector<int> result;
  for (const auto& ranks : exchange.hosts()) result.push_back(ranks[local_rank]);
  return result;
}

// A rank as its local rank on one of the hosts.
struct HostLocation {
  std::size_t host = 0, local_rank = 0;
};
inline HostLocation locate_rank(std::span<const std::vector<int>> hosts, int rank) {
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    const auto& ranks = hosts[host];
    const auto found = std::find(ranks.begin(), ranks.end(), rank);
    if (found != ranks.end()) return {host, static_cast<std::size_t>(found - ranks.begin())};
  }
  return {};
}

inline std::vector<int> rail_ranks_from_root(const MessageExchange& exchange,
                                             const HostLocation& root, std::size_t local_rank) {
  const auto hosts = exchange.hosts();
  std::vector<int> result;
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    const auto first = host == root.host ? root.local_rank : 0;
    result.push_back(hosts[host][(first + local_rank) % hosts[host].size()]);
  }
  return result;
}

// The rails of collectives in blocks: rail p has the blocks of the ranks with local rank p. On a
// host of m ranks without such a rank, its rank p mod m takes part and has no block there. A round
// has as many rails as the smallest host has ranks, so no rank is in two rails of a round. All
// hosts go from round to round together, so the steps of a host's ranks in a round wait for no
// other round.
class BlockRails {
 public:
  static constexpr int kNoOwner = -1;

  explicit BlockRails(std::span<const std::vector<int>> hosts) : hosts_(hosts) {
    for (const auto& ranks : hosts) {
      rails_ = std::max(rails_, ranks.size());
      rails_per_round_ = std::min(rails_per_round_, ranks.size());
    }
  }

  std::size_t rounds() const { return (rails_ + rails_per_round_ - 1) / rails_per_round_; }
  // The rail, in a round, of a local rank on a host with `ranks` ranks; nullopt: it has none.
  std::optional<std::size_t> rail(std::size_t round, std::size_t local_rank,
                                  std::size_t ranks) const {
    const auto begin = round * rails_per_round_, end = std::min(rails_, begin + rails_per_round_);
    const auto rail_index = begin + (local_rank + ranks - begin % ranks) % ranks;
    return rail_index < end ? std::optional(rail_index) : std::nullopt;
  }
  // For each host: the rank in the rail, and the owner of the block that it has.
  std::vector<int> members(std::size_t rail_index) const {
    std::vector<int> members;
    for (const auto& ranks : hosts_) members.push_back(ranks[rail_index % ranks.size()]);
    return members;
  }
  std::vector<int> owners(std::size_t rail_index) const {
    std::vector<int> owners;
    for (const auto& ranks : hosts_)
      owners.push_back(rail_index < ranks.size() ? ranks[rail_index] : kNoOwner);
    return owners;
  }

 private:
  const std::span<const std::vector<int>> hosts_;
  std::size_t rails_ = 0;
  std::size_t rails_per_round_ = std::numeric_limits<std::size_t>::max();
};

}  // namespace lockstep::comm

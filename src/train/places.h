// Places: which ranks are on one host, so that those who exchange most can be close to each other.
//
// A launcher that follows the map numbers hosts in the map's order and ranks host by host; mpirun
// and srun may deal ranks out in turn. So ranks are put in order by host, hosts by their lowest
// rank, and groups are cut from that order: those that fit lie within a host, those that do not are
// of whole hosts, neighbours in the map, and so of one pod before they are of two.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace lockstep {

class Places {
 public:
  // All ranks on one host.
  explicit Places(int ranks) : Places(std::vector<std::int64_t>(static_cast<std::size_t>(ranks))) {}
  // A number for each rank's host, equal for equal hosts.
  explicit Places(const std::vector<std::int64_t>& host_of_rank);

  int ranks() const { return static_cast<int>(order_.size()); }
  int hosts() const { return static_cast<int>(sizes_.size()); }
  int most_on_a_host() const;
  // A number for each rank's host, by rank.
  std::vector<int> host_of_rank() const;
  // The ranks so that close ones are neighbours.
  const std::vector<int>& order() const { return order_; }
  // The group of that many neighbours that a rank is in, and which of them it is.
  struct Group {
    std::vector<int> ranks;
    int index = 0;   // of the rank in it
    int number = 0;  // of the group
  };
  Group group_of(int rank, int size) const;
  // Whether each group of so many lies within a host or is of whole hosts.
  bool suits(int group) const;
  // "groups within hosts", "groups of 2 hosts".
  std::string about(int group) const;

 private:
  std::vector<int> order_;
  std::vector<int> sizes_;  // of the hosts, in the order's order
};

// Which host this process is on: LOCKSTEP_HOST_ID, as launchers that know the map set it, else the
// machine's boot id.
Result<std::string> own_host_id();
// A number for it, the same in every process.
std::int64_t number_of_host(const std::string& id);

}  // namespace lockstep

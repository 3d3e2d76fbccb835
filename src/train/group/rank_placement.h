// RankPlacement: which ranks are on one host, so that ranks that exchange most can be close.
//
// A launcher that uses the map numbers hosts in the map's order and ranks host by host; mpirun and
// srun may assign ranks to hosts in turn. So ranks are sorted by host, hosts by their lowest rank,
// and groups are cut from that order. Small groups are within a host. Larger ones consist of whole
// hosts that are neighbours in the map, and so within one pod before they span two.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace lockstep::train {

class RankPlacement {
 public:
  // All ranks on one host.
  explicit RankPlacement(int ranks)
      : RankPlacement(std::vector<std::int64_t>(static_cast<std::size_t>(ranks))) {}
  // A number for each rank's host, equal for equal hosts.
  explicit RankPlacement(const std::vector<std::int64_t>& host_of_rank);

  int ranks() const { return static_cast<int>(ranks_by_host_.size()); }
  int hosts() const { return static_cast<int>(sizes_.size()); }
  int ranks_per_host_max() const;
  // A number for each rank's host, by rank.
  std::vector<int> host_of_rank() const;
  // The ranks in an order in which close ones are neighbours.
  const std::vector<int>& ranks_by_host() const { return ranks_by_host_; }
  // A rank's group of `size` neighbours, and its index in it.
  struct Group {
    std::vector<int> ranks;
    int index = 0;   // of the rank in it
    int number = 0;  // of the group
  };
  Group group_of(int rank, int size) const;
  // True if each group of this size is within a host or consists of whole hosts.
  bool fits_hosts(int group) const;
  // "groups within hosts", "groups of 2 hosts".
  std::string describe_groups(int group) const;

 private:
  std::vector<int> ranks_by_host_;
  std::vector<int> sizes_;  // of the hosts, in the order's order
};

// The host of this process: LOCKSTEP_HOST_ID, which launchers with a map set, else the machine's
// boot id.
Result<std::string> own_host_id();
// A hash of it, the same in every process.
std::int64_t hash_host_id(const std::string& id);

}  // namespace lockstep::train

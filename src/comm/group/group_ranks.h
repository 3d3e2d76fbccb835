// GroupRanks: the global ranks of a group, and its name for messages. Within a group ranks are
// numbered from 0; messages always name a rank by its global rank (RANK).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::comm {

struct GroupRanks {
  std::string name;        // for people: "shard 1"; empty: a group that the user's program made
  std::vector<int> ranks;  // global ranks, by rank in the group
  bool is_world = false;   // all ranks that the run has now: messages need not list them

  // The ranks 0 to size - 1 as the world.
  static GroupRanks world(int size);
  // These ranks as the world.
  static GroupRanks world(std::vector<int> ranks);

  // The global rank of a rank of the group.
  int global_rank(int rank) const { return ranks.at(static_cast<std::size_t>(rank)); }
  // The members at these ranks of the group, in this order.
  GroupRanks subgroup(const std::vector<int>& group_ranks, std::string part_name) const;
};

// "world", "shard 1: ranks 2, 3", "group of ranks 0, 2"
std::string text(const GroupRanks& members);

// Encodes ranks compactly, because most groups are regular: "0-7,9,16-30/2".
std::string to_rank_ranges(const std::vector<int>& ranks);
// Nullopt unless these are `size` ranks, none of them negative or as large as `limit`.
std::optional<std::vector<int>> parse_rank_ranges(std::string_view runs, int size, int limit);

}  // namespace lockstep::comm

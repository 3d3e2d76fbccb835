// Members: which ranks of the run a group has, and what people call the group. Within a group ranks
// are numbered from 0; messages always name a rank by its number in the run (RANK).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

struct Members {
  std::string name;        // for people: "shard 1"; empty: a group that the user's program made
  std::vector<int> ranks;  // of the run, by rank in the group
  bool is_world = false;   // all ranks that the run has now: messages need not name them

  // The ranks 0 to size - 1 as the world.
  static Members world(int size);
  // These ranks as the world.
  static Members world(std::vector<int> ranks);

  // The number in the run of a rank of the group.
  int number_of(int rank) const { return ranks.at(static_cast<std::size_t>(rank)); }
  // The members at these ranks of the group, in this order.
  Members part(const std::vector<int>& group_ranks, std::string part_name) const;
};

// "world", "shard 1: ranks 2, 3", "group of ranks 0, 2"
std::string text(const Members& members);

// Ranks in few bytes, since most groups are regular: "0-7,9,16-30/2".
std::string to_runs(const std::vector<int>& ranks);
// Nothing unless these are `size` ranks, none of them negative or as large as `limit`.
std::optional<std::vector<int>> parse_runs(std::string_view runs, int size, int limit);

}  // namespace lockstep

#include "comm/group/group_ranks.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>

#include "base/format.h"

namespace lockstep::comm {
namespace {

constexpr std::size_t kNamed = 8;        // with more ranks
constexpr std::size_t kNamedOfMany = 4;  // only these are named

std::string rank_list_text(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return format("rank {}", ranks.front());
  if (ranks.size() <= kNamed) return format("ranks {}", joined(ranks, ", "));
  const std::vector<int> first(ranks.begin(), ranks.begin() + kNamedOfMany);
  return format("ranks {} and {} more", joined(first, ", "), ranks.size() - kNamedOfMany);
}

struct Run {
  int first = 0, last = 0, stride = 1;
};

std::string text(const Run& run) {
  if (run.first == run.last) return format("{}", run.first);
  if (run.stride == 1) return format("{}-{}", run.first, run.last);
  return format("{}-{}/{}", run.first, run.last, run.stride);
}

std::optional<int> take_number(std::string_view& input) {
  int number = 0;
  const auto [end, failure] = std::from_chars(input.data(), input.data() + input.size(), number);
  if (failure != std::errc() || number < 0) return std::nullopt;
  input.remove_prefix(static_cast<std::size_t>(end - input.data()));
  return number;
}

bool take(std::string_view& input, char letter) {
  if (!input.starts_with(letter)) return false;
  input.remove_prefix(1);
  return true;
}

std::optional<Run> parse_rank_range(std::string_view& input) {
  const auto first = take_number(input);
  if (!first) return std::nullopt;
  Run run{*first, *first};
  if (!take(input, '-')) return run;
  const auto last = take_number(input);
  const auto stride = take(input, '/') ? take_number(input) : std::optional(1);
  if (!last || !stride || *stride < 1 || *last < *first) return std::nullopt;
  run.last = *last;
  run.stride = *stride;
  return run;
}

}  // namespace

GroupRanks GroupRanks::world(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return world(std::move(ranks));
}

GroupRanks GroupRanks::world(std::vector<int> ranks) { return {"world", std::move(ranks), true}; }

GroupRanks GroupRanks::subgroup(const std::vector<int>& group_ranks, std::string part_name) const {
  GroupRanks members{std::move(part_name), {}};
  for (const int rank : group_ranks) members.ranks.push_back(global_rank(rank));
  return members;
}

std::string text(const GroupRanks& members) {
  if (members.is_world) return members.name;
  const auto ranks = rank_list_text(members.ranks);
  return members.name.empty() ? format("group of {}", ranks)
                              : format("{}: {}", members.name, ranks);
}

std::string to_rank_ranges(const std::vector<int>& ranks) {
  std::vector<std::string> runs;
  for (std::size_t i = 0; i < ranks.size();) {
    Run run{ranks[i], ranks[i]};
    std::size_t next = i + 1;
    if (next < ranks.size() && ranks[next] > ranks[i]) {
      run.stride = ranks[next] - ranks[i];
      while (next < ranks.size() && ranks[next] - ranks[next - 1] == run.stride) ++next;
      run.last = ranks[next - 1];
    }
    runs.push_back(text(run));
    i = next;
  }
  return joined(runs, ",");
}

std::optional<std::vector<int>> parse_rank_ranges(std::string_view runs, int size, int limit) {
  std::vector<int> ranks;
  do {
    const auto run = parse_rank_range(runs);
    if (!run || run->last >= limit) return std::nullopt;
    for (int rank = run->first; rank <= run->last; rank += run->stride) {
      if (std::ssize(ranks) == size) return std::nullopt;
      ranks.push_back(rank);
      if (run->stride > run->last - rank) break;
    }
  } while (take(runs, ','));
  if (!runs.empty() || std::ssize(ranks) != size) return std::nullopt;
  return ranks;
}

}  // namespace lockstep::comm

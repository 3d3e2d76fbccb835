#include "comm/group/members.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>

#include "base/format.h"

namespace lockstep {
namespace {

constexpr std::size_t kNamed = 8;        // of more ranks
constexpr std::size_t kNamedOfMany = 4;  // only these are named

std::string ranks_in_words(const std::vector<int>& ranks) {
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

std::optional<int> take_number(std::string_view& words) {
  int number = 0;
  const auto [end, failure] = std::from_chars(words.data(), words.data() + words.size(), number);
  if (failure != std::errc() || number < 0) return std::nullopt;
  words.remove_prefix(static_cast<std::size_t>(end - words.data()));
  return number;
}

bool take(std::string_view& words, char letter) {
  if (!words.starts_with(letter)) return false;
  words.remove_prefix(1);
  return true;
}

std::optional<Run> take_run(std::string_view& words) {
  const auto first = take_number(words);
  if (!first) return std::nullopt;
  Run run{*first, *first};
  if (!take(words, '-')) return run;
  const auto last = take_number(words);
  const auto stride = take(words, '/') ? take_number(words) : std::optional(1);
  if (!last || !stride || *stride < 1 || *last < *first) return std::nullopt;
  run.last = *last;
  run.stride = *stride;
  return run;
}

}  // namespace

Members Members::world(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return world(std::move(ranks));
}

Members Members::world(std::vector<int> ranks) { return {"world", std::move(ranks), true}; }

Members Members::part(const std::vector<int>& group_ranks, std::string part_name) const {
  Members members{std::move(part_name), {}};
  for (const int rank : group_ranks) members.ranks.push_back(number_of(rank));
  return members;
}

std::string text(const Members& members) {
  if (members.is_world) return members.name;
  const auto ranks = ranks_in_words(members.ranks);
  return members.name.empty() ? format("group of {}", ranks)
                              : format("{}: {}", members.name, ranks);
}

std::string to_runs(const std::vector<int>& ranks) {
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

std::optional<std::vector<int>> parse_runs(std::string_view runs, int size, int limit) {
  std::vector<int> ranks;
  do {
    const auto run = take_run(runs);
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

}  // namespace lockstep

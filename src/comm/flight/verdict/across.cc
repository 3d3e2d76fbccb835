#include "comm/flight/verdict/across.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/format.h"
#include "comm/flight/verdict/verdict.h"
#include "comm/flight/verdict/words.h"

namespace lockstep {
namespace {

bool is_inside(const FlightLog& log) {
  const auto* newest = newest_entered(log);
  return newest != nullptr && newest->under_way();
}

// By rank, the ranks that it waits for: in each group in which it is inside a collective, the late
// one.
std::map<int, std::set<int>> waits_in(const std::vector<FlightGroup>& groups) {
  std::map<int, std::set<int>> waits;
  for (const FlightGroup& group : groups) {
    const int late = late_rank_of(group);
    if (late < 0) continue;
    for (const FlightLog& log : group.logs)
      if (log.rank != late && is_inside(log)) waits[log.rank].insert(late);
  }
  return waits;
}

std::size_t held_up(const std::vector<FlightGroup>& groups) {
  return static_cast<std::size_t>(std::ranges::count_if(groups, [](const FlightGroup& group) {
    return late_rank_of(group) >= 0 && std::ranges::any_of(group.logs, is_inside);
  }));
}

std::string process_of(const std::vector<FlightGroup>& groups, int rank) {
  for (const FlightGroup& group : groups)
    for (const FlightLog& log : group.logs)
      if (log.rank == rank) return process_text(log);
  return {};
}

}  // namespace

std::vector<int> ranks_to_blame(const std::vector<FlightGroup>& groups) {
  const auto waits = waits_in(groups);
  std::set<int> to_blame;
  for (const auto& [rank, awaited] : waits)
    for (const int late : awaited)
      if (!waits.contains(late)) to_blame.insert(late);
  return {to_blame.begin(), to_blame.end()};
}

std::string holdup_across(const std::vector<FlightGroup>& groups) {
  const auto to_blame = ranks_to_blame(groups);
  const auto count = held_up(groups);
  if (to_blame.empty() || count < 2) return {};
  return format("{} {} up {} groups{}", ranks_text(to_blame),
                to_blame.size() == 1 ? "holds" : "hold", count,
                to_blame.size() == 1 ? process_of(groups, to_blame.front()) : "");
}

}  // namespace lockstep

#include "comm/flight/diagnosis/across_groups.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/format.h"
#include "comm/flight/diagnosis/diagnosis.h"
#include "comm/flight/diagnosis/flight_text.h"

namespace lockstep::comm {
namespace {

bool is_inside(const FlightLog& log) {
  const auto* newest = newest_entered(log);
  return newest != nullptr && newest->under_way();
}

// For each rank, the ranks that it waits for: the late rank of each group in which it is inside a
// collective.
std::map<int, std::set<int>> waits_in(const std::vector<FlightGroup>& groups) {
  std::map<int, std::set<int>> waits;
  for (const FlightGroup& group : groups) {
    const int late = find_late_rank(group);
    if (late < 0) continue;
    for (const FlightLog& log : group.logs)
      if (log.rank != late && is_inside(log)) waits[log.rank].insert(late);
  }
  return waits;
}

std::size_t stalled_group_count(const std::vector<FlightGroup>& groups) {
  return static_cast<std::size_t>(std::ranges::count_if(groups, [](const FlightGroup& group) {
    return find_late_rank(group) >= 0 && std::ranges::any_of(group.logs, is_inside);
  }));
}

std::string process_of(const std::vector<FlightGroup>& groups, int rank) {
  for (const FlightGroup& group : groups)
    for (const FlightLog& log : group.logs)
      if (log.rank == rank) return process_text(log);
  return {};
}

}  // namespace

std::vector<int> root_cause_ranks(const std::vector<FlightGroup>& groups) {
  const auto waits = waits_in(groups);
  std::set<int> to_blame;
  for (const auto& [rank, awaited] : waits)
    for (const int late : awaited)
      if (!waits.contains(late)) to_blame.insert(late);
  return {to_blame.begin(), to_blame.end()};
}

std::string describe_stall_across_groups(const std::vector<FlightGroup>& groups) {
  const auto to_blame = root_cause_ranks(groups);
  const auto count = stalled_group_count(groups);
  if (to_blame.empty() || count < 2) return {};
  return format("{} {} up {} groups{}", ranks_text(to_blame),
                to_blame.size() == 1 ? "holds" : "hold", count,
                to_blame.size() == 1 ? process_of(groups, to_blame.front()) : "");
}

}  // namespace lockstep::comm

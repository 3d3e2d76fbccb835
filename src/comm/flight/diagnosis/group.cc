#include "comm/flight/diagnosis/group.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/format.h"

namespace lockstep::comm {
namespace {

// By rank, and the later recorded first.
bool comes_before(const FlightLog& a, const FlightLog& b) {
  return std::pair(a.rank, b.recorded_since) < std::pair(b.rank, a.recorded_since);
}

std::map<std::uint64_t, FlightRow> all_rows(const FlightGroup& group) {
  std::map<std::uint64_t, FlightRow> rows;
  for (std::size_t i = 0; i < group.logs.size(); ++i)
    for (const FlightOperation& operation : group.logs[i].operations) {
      if (!operation.is_collective()) continue;
      FlightRow& row = rows[operation.sequence];
      row.sequence = operation.sequence;
      row.calls.resize(group.logs.size());
      row.calls[i] = &operation;
    }
  return rows;
}

// Ranks that connect again after a loss have another group of the same name.
void make_names_unique(std::vector<FlightGroup>& groups) {
  std::map<std::string, int> uses;
  for (const FlightGroup& group : groups) ++uses[group.name];
  for (FlightGroup& group : groups)
    if (uses[group.name] > 1)
      group.name += format(" since {}", lockstep::text(std::chrono::time_point_cast<Duration>(
                                            group.logs.front().recorded_since)));
}

}  // namespace

std::vector<FlightGroup> flight_groups(std::vector<FlightLog> logs) {
  std::ranges::sort(logs, comes_before);
  std::map<std::pair<std::string, std::vector<int>>, FlightGroup> groups;
  for (FlightLog& log : logs) {
    FlightGroup& group = groups[{log.group, log.members}];
    if (!group.logs.empty() && group.logs.back().rank == log.rank) continue;
    group.name = log.name;
    group.size = log.size;
    group.members = log.members;
    group.logs.push_back(std::move(log));
  }
  std::vector<FlightGroup> all;
  for (auto& [key, group] : groups) all.push_back(std::move(group));
  make_names_unique(all);
  std::ranges::stable_sort(all, {}, [](const FlightGroup& group) {
    return std::pair(!group.name.starts_with("world"), group.name);
  });
  return all;
}

const FlightOperation& FlightRow::first_recorded() const {
  const auto found = std::ranges::find_if(calls, [](const auto* call) { return call != nullptr; });
  LS_CHECK(found != calls.end(), "a row without a call");
  return **found;
}

std::vector<FlightRow> flight_rows(const FlightGroup& group, std::size_t most) {
  auto all = all_rows(group);
  std::vector<FlightRow> rows;
  const std::size_t left_out = all.size() - std::min(most, all.size());
  for (auto row = std::next(all.begin(), static_cast<std::ptrdiff_t>(left_out)); row != all.end();
       ++row)
    rows.push_back(std::move(row->second));
  return rows;
}

std::optional<FlightSkew> skew_of(const FlightGroup& group, const FlightRow& row) {
  std::vector<std::pair<FlightTime, int>> entries;
  for (std::size_t i = 0; i < row.calls.size(); ++i)
    if (row.calls[i] != nullptr && row.calls[i]->started)
      entries.emplace_back(*row.calls[i]->started, group.logs[i].rank);
  if (entries.size() < 2) return std::nullopt;
  const auto [first, last] = std::ranges::minmax(entries);
  return FlightSkew{last.second, last.first - first.first};
}

const FlightOperation* newest_entered(const FlightLog& log) {
  const FlightOperation* newest = nullptr;
  for (const FlightOperation& operation : log.operations)
    if (operation.is_collective() && operation.started &&
        (newest == nullptr || operation.sequence > newest->sequence))
      newest = &operation;
  return newest;
}

FlightTime viewed_at(const std::vector<FlightLog>& logs, FlightTime now) {
  FlightTime last;
  for (const FlightLog& log : logs) {
    if (log.process == ProcessState::runs || log.process == ProcessState::stopped) return now;
    last = std::max(last, log.last_seen());
  }
  return last;
}

}  // namespace lockstep::comm

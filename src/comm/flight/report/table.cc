#include "comm/flight/report/table.h"

#include <algorithm>
#include <numeric>

#include "base/format.h"
#include "comm/flight/diagnosis/flight_text.h"

namespace lockstep::comm {
namespace {

constexpr std::size_t kColumns = 8;

// Indices in group.logs.
std::vector<std::size_t> shown_ranks(const FlightGroup& group) {
  std::vector<std::size_t> shown(group.logs.size());
  std::iota(shown.begin(), shown.end(), std::size_t{0});
  std::ranges::stable_sort(shown, {}, [&](std::size_t i) {
    const auto* newest = newest_entered(group.logs[i]);
    return newest == nullptr ? 0 : newest->sequence;
  });
  shown.resize(std::min(shown.size(), kColumns));
  std::ranges::sort(shown);
  return shown;
}

bool called_later(const FlightLog& log, std::uint64_t sequence) {
  return std::ranges::any_of(log.operations, [&](const FlightOperation& operation) {
    return operation.is_collective() && operation.sequence > sequence;
  });
}

std::string cell(const FlightOperation& call, FlightTime now) {
  switch (call.state) {
    case FlightState::queued:
      return "queued";
    case FlightState::failed:
      return "failed";
    case FlightState::done:
      return duration_text(*call.ended - *call.started);
    case FlightState::started:
      break;
  }
  if (call.wait)
    return format("waits {} for {}", duration_text(now - call.wait->since), call.wait->peer);
  return format("inside {}", duration_text(now - *call.started));
}

std::string skew_text(const std::optional<FlightSkew>& skew) {
  return skew ? format("rank {}, {} later", skew->rank, duration_text(skew->skew)) : "-";
}

}  // namespace

Table flight_table(const FlightGroup& group, std::size_t newest, FlightTime now) {
  const auto shown = shown_ranks(group);
  std::vector<std::string> header = {"OPERATION"};
  for (const std::size_t i : shown) header.push_back(format("RANK {}", group.logs[i].rank));
  header.emplace_back("ENTERED LAST");
  Table table(std::move(header));
  for (const FlightRow& row : flight_rows(group, newest)) {
    std::vector<std::string> cells = {short_call_text(row.first_recorded())};
    for (const std::size_t i : shown)
      cells.push_back(row.calls[i] != nullptr                     ? cell(*row.calls[i], now)
                      : called_later(group.logs[i], row.sequence) ? "?"
                                                                  : "-");
    cells.push_back(skew_text(skew_of(group, row)));
    table.add(std::move(cells));
  }
  return table;
}

}  // namespace lockstep::comm

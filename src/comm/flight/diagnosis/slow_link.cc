#include "comm/flight/diagnosis/slow_link.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "base/format.h"
#include "comm/flight/diagnosis/flight_text.h"

namespace lockstep::comm {
namespace {

using Ends = std::pair<std::size_t, std::size_t>;  // from, to: indices in group.logs

// Collectives that all ranks have completed.
std::vector<FlightRow> ended_rows(const FlightGroup& group, std::size_t newest) {
  auto rows = flight_rows(group, FlightRecorder::kRecords);
  std::erase_if(rows, [](const FlightRow& row) {
    return !std::ranges::all_of(row.calls, [](const FlightOperation* call) {
      return call != nullptr && call->state == FlightState::done && call->started && call->ended;
    });
  });
  if (rows.size() > newest)
    rows.erase(rows.begin(), rows.end() - static_cast<std::ptrdiff_t>(newest));
  return rows;
}

// Every link with a recorded wait, and the time that both ends waited for it. All ranks of the
// group have a log.
std::map<Ends, Nanoseconds> waits_of(const FlightGroup& group, const std::vector<FlightRow>& rows) {
  std::map<int, std::size_t> log_index;  // of a rank
  for (std::size_t i = 0; i < group.logs.size(); ++i) log_index[group.logs[i].rank] = i;
  std::map<Ends, Nanoseconds> waits;
  for (const FlightRow& row : rows)
    for (std::size_t i = 0; i < row.calls.size(); ++i) {
      const auto& [taken, sent] =
          std::pair(row.calls[i]->longest_send_wait, row.calls[i]->longest_receive_wait);
      if (sent) waits[{log_index.at(sent->peer), i}];
      if (!taken) continue;
      const auto to = log_index.at(taken->peer);
      auto& waited = waits[{i, to}];
      const auto& other = row.calls[to]->longest_receive_wait;
      if (other && other->peer == group.logs[i].rank)
        waited += std::min(taken->duration, other->duration);
    }
  return waits;
}

// By the clock of one host, so that differences between clocks do not matter.
Nanoseconds time_of(const std::vector<FlightRow>& rows) {
  return std::max(*rows.back().calls.front()->ended - *rows.front().calls.front()->started,
                  Nanoseconds(1));
}

bool within_a_host(const FlightGroup& group, const Ends& ends) {
  return group.logs[ends.first].host == group.logs[ends.second].host;
}

// The median of the other links of its kind; nullopt if there are none.
std::optional<Nanoseconds> median_of_others(const FlightGroup& group,
                                            const std::map<Ends, Nanoseconds>& waits,
                                            const Ends& link) {
  std::vector<Nanoseconds> others;
  for (const auto& [ends, waited] : waits)
    if (ends != link && within_a_host(group, ends) == within_a_host(group, link))
      others.push_back(waited);
  if (others.empty()) return std::nullopt;
  const auto middle = others.begin() + std::ssize(others) / 2;
  std::ranges::nth_element(others, middle);
  return *middle;
}

LinkEnd end_of(const FlightLog& log) { return {log.rank, log.host}; }

}  // namespace

std::vector<SlowLink> find_slow_links(const FlightGroup& group, const SlowLinkThresholds& bounds) {
  if (group.size < 2 || static_cast<int>(group.logs.size()) != group.size) return {};
  const auto rows = ended_rows(group, bounds.collectives_max);
  if (rows.empty() || rows.size() < bounds.collectives_min) return {};
  const auto waits = waits_of(group, rows);
  const auto time = static_cast<double>(time_of(rows).count());
  std::vector<SlowLink> found;
  for (const auto& [ends, waited] : waits) {
    const auto others = median_of_others(group, waits, ends);
    const auto share = [&](Nanoseconds span) { return static_cast<double>(span.count()) / time; };
    if (!others || share(waited) < bounds.cost_share_min ||
        share(waited) < bounds.others_ratio_min * share(*others))
      continue;
    found.push_back({.from = end_of(group.logs[ends.first]),
                     .to = end_of(group.logs[ends.second]),
                     .group = group.name,
                     .cost_share = share(waited),
                     .others_share = share(*others),
                     .collectives = rows.size()});
  }
  std::ranges::stable_sort(found, std::ranges::greater(), &SlowLink::cost_share);
  if (found.size() > 1) found.erase(found.begin() + 1, found.end());
  return found;
}

std::string text(const SlowLink& link) {
  return format(
      "the link from rank {} on host {} to rank {} on host {} is slow: both waited for it {} % of "
      "the time of the last {} collectives of {}, for links like it {} %",
      link.from.rank, link.from.host, link.to.rank, link.to.host, percent_of(link.cost_share),
      link.collectives, link.group, percent_of(link.others_share));
}

}  // namespace lockstep::comm

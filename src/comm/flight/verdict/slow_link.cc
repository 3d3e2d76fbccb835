#include "comm/flight/verdict/slow_link.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "base/format.h"
#include "comm/flight/verdict/words.h"

namespace lockstep {
namespace {

using Ends = std::pair<std::size_t, std::size_t>;  // from, to: places in group.logs

// Collectives that all ranks have ended.
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

// Every link of which a wait tells, with how long both ends waited for it. All ranks of the group
// have a log.
std::map<Ends, Nanoseconds> waits_of(const FlightGroup& group, const std::vector<FlightRow>& rows) {
  std::map<int, std::size_t> place;  // of a rank
  for (std::size_t i = 0; i < group.logs.size(); ++i) place[group.logs[i].rank] = i;
  std::map<Ends, Nanoseconds> waits;
  for (const FlightRow& row : rows)
    for (std::size_t i = 0; i < row.calls.size(); ++i) {
      const auto& [taken, sent] = std::pair(row.calls[i]->to_take, row.calls[i]->to_send);
      if (sent) waits[{place.at(sent->peer), i}];
      if (!taken) continue;
      const auto to = place.at(taken->peer);
      auto& waited = waits[{i, to}];
      const auto& other = row.calls[to]->to_send;
      if (other && other->peer == group.logs[i].rank) waited += std::min(taken->span, other->span);
    }
  return waits;
}

// By the clock of one host, so that it does not matter how they differ.
Nanoseconds time_of(const std::vector<FlightRow>& rows) {
  return std::max(*rows.back().calls.front()->ended - *rows.front().calls.front()->started,
                  Nanoseconds(1));
}

bool within_a_host(const FlightGroup& group, const Ends& ends) {
  return group.logs[ends.first].host == group.logs[ends.second].host;
}

// Of the other links of its kind the median; nothing if there are none.
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

std::vector<SlowLink> slow_links_of(const FlightGroup& group, const SlowLinkBounds& bounds) {
  if (group.size < 2 || static_cast<int>(group.logs.size()) != group.size) return {};
  const auto rows = ended_rows(group, bounds.newest);
  if (rows.empty() || rows.size() < bounds.least) return {};
  const auto waits = waits_of(group, rows);
  const auto time = static_cast<double>(time_of(rows).count());
  std::vector<SlowLink> found;
  for (const auto& [ends, waited] : waits) {
    const auto others = median_of_others(group, waits, ends);
    const auto share = [&](Nanoseconds span) { return static_cast<double>(span.count()) / time; };
    if (!others || share(waited) < bounds.cost || share(waited) < bounds.times * share(*others))
      continue;
    found.push_back({.from = end_of(group.logs[ends.first]),
                     .to = end_of(group.logs[ends.second]),
                     .group = group.name,
                     .cost = share(waited),
                     .others = share(*others),
                     .collectives = rows.size()});
  }
  std::ranges::stable_sort(found, std::ranges::greater(), &SlowLink::cost);
  if (found.size() > 1) found.erase(found.begin() + 1, found.end());
  return found;
}

std::string words_of(const SlowLink& link) {
  return format(
      "the link from rank {} on host {} to rank {} on host {} is slow: both waited for it {} % of "
      "the time of the last {} collectives of {}, for links like it {} %",
      link.from.rank, link.from.host, link.to.rank, link.to.host, percent_of(link.cost),
      link.collectives, link.group, percent_of(link.others));
}

}  // namespace lockstep

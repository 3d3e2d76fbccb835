#include "comm/flight/verdict/straggler.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "comm/flight/verdict/words.h"

namespace lockstep {
namespace {

constexpr std::array<std::string_view, 5> kTogether = {"all_reduce", "reduce_scatter", "all_gather",
                                                       "all_to_all", "barrier"};

// A collective that all ranks have ended: by rank when they entered and ended it.
struct Meeting {
  std::vector<FlightTime> entered;
  std::vector<FlightTime> ended;

  // Of who waited least: about what the transfer took.
  Nanoseconds transfer() const {
    Nanoseconds least = Nanoseconds::max();
    for (std::size_t i = 0; i < entered.size(); ++i) least = std::min(least, ended[i] - entered[i]);
    return least;
  }
};

template <class Value>
Value lower_median(std::vector<Value> values) {
  const auto middle = values.begin() + std::ssize(values) / 2 - (values.size() % 2 == 0 ? 1 : 0);
  std::ranges::nth_element(values, middle);
  return *middle;
}

bool is_complete(const FlightRow& row) {
  return std::ranges::all_of(row.calls, [](const FlightOperation* call) {
    return call != nullptr && call->started && call->ended && call->state == FlightState::done;
  });
}

std::vector<Meeting> meetings_of(const FlightGroup& group, std::size_t newest) {
  std::vector<Meeting> meetings;
  for (const FlightRow& row : flight_rows(group, FlightRecorder::kRecords)) {
    if (!is_complete(row) || std::ranges::find(kTogether, row.any().name) == kTogether.end())
      continue;
    Meeting& meeting = meetings.emplace_back();
    for (const FlightOperation* call : row.calls) {
      meeting.entered.push_back(*call->started);
      meeting.ended.push_back(*call->ended);
    }
  }
  if (meetings.size() > newest)
    meetings.erase(meetings.begin(), meetings.end() - static_cast<std::ptrdiff_t>(newest));
  return meetings;
}

// A quarter of them.
std::vector<const Meeting*> fastest(const std::vector<Meeting>& meetings) {
  std::vector<const Meeting*> sorted;
  for (const Meeting& meeting : meetings) sorted.push_back(&meeting);
  std::ranges::stable_sort(sorted, {}, &Meeting::transfer);
  sorted.resize((sorted.size() + 3) / 4);
  return sorted;
}

// How far the clock of the host of each rank is ahead of that of rank 0's host.
std::vector<Nanoseconds> clocks_of(const FlightGroup& group, const std::vector<Meeting>& meetings) {
  const auto quick = fastest(meetings);
  std::map<std::string, std::size_t> first_on;  // by host its first rank
  std::map<std::string, Nanoseconds> ahead;
  for (std::size_t i = 0; i < group.logs.size(); ++i)
    if (first_on.emplace(group.logs[i].host, i).second) {
      std::vector<Nanoseconds> differences;
      for (const Meeting* meeting : quick)
        differences.push_back(meeting->ended[i] - meeting->ended[0]);
      ahead[group.logs[i].host] = lower_median(std::move(differences));
    }
  std::vector<Nanoseconds> clocks;
  for (const FlightLog& log : group.logs) clocks.push_back(ahead.at(log.host));
  return clocks;
}

void use_one_clock(const FlightGroup& group, std::vector<Meeting>& meetings) {
  const auto clocks = clocks_of(group, meetings);
  for (Meeting& meeting : meetings)
    for (std::size_t i = 0; i < clocks.size(); ++i) {
      meeting.entered[i] -= clocks[i];
      meeting.ended[i] -= clocks[i];
    }
}

// By meeting.
std::vector<Nanoseconds> lags_of(std::size_t rank, const std::vector<Meeting>& meetings) {
  std::vector<Nanoseconds> lags;
  for (const Meeting& meeting : meetings) {
    auto others = meeting.entered;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(rank));
    lags.push_back(meeting.entered[rank] - lower_median(std::move(others)));
  }
  return lags;
}

double share_last(std::size_t rank, const std::vector<Meeting>& meetings) {
  const auto count = std::ranges::count_if(meetings, [&](const Meeting& meeting) {
    return std::ranges::max(meeting.entered) == meeting.entered[rank];
  });
  return static_cast<double>(count) / static_cast<double>(meetings.size());
}

Nanoseconds span_of(const std::vector<Meeting>& meetings) {
  return std::ranges::max(meetings.back().ended) - std::ranges::min(meetings.front().entered);
}

Straggler finding_of(const FlightGroup& group, std::size_t rank,
                     const std::vector<Meeting>& meetings) {
  const auto lags = lags_of(rank, meetings);
  Nanoseconds waited{};
  for (const Nanoseconds lag : lags) waited += std::max(lag, Nanoseconds(0));
  const FlightLog& log = group.logs[rank];
  return {.rank = log.rank,
          .host = log.host,
          .group = group.name,
          .last = share_last(rank, meetings),
          .behind = lower_median(lags),
          .cost = static_cast<double>(waited.count()) /
                  static_cast<double>(std::max(span_of(meetings), Nanoseconds(1)).count()),
          .collectives = meetings.size()};
}

// The share of collectives to enter last from which on a rank is named. By chance it is one of
// `size`; of two ranks none enters twice as often last as that.
double share_least(const FlightGroup& group, const StragglerBounds& bounds) {
  constexpr double kShareMost = 0.75;
  return std::min(kShareMost, bounds.last / static_cast<double>(group.size));
}

void sort_by_cost(std::vector<Straggler>& found) {
  std::ranges::stable_sort(found, std::ranges::greater(), &Straggler::cost);
}

}  // namespace

std::vector<Straggler> stragglers_of(const FlightGroup& group, const StragglerBounds& bounds) {
  if (group.size < 2 || static_cast<int>(group.logs.size()) != group.size) return {};
  auto meetings = meetings_of(group, bounds.newest);
  if (meetings.empty() || meetings.size() < bounds.least) return {};
  use_one_clock(group, meetings);
  std::vector<Straggler> found;
  for (std::size_t rank = 0; rank < group.logs.size(); ++rank)
    if (auto one = finding_of(group, rank, meetings); one.behind >= bounds.behind &&
                                                      one.cost >= bounds.cost &&
                                                      one.last >= share_least(group, bounds))
      found.push_back(std::move(one));
  sort_by_cost(found);
  return found;
}

std::vector<Straggler> stragglers_of(const std::vector<FlightGroup>& groups,
                                     const StragglerBounds& bounds) {
  std::map<std::pair<int, std::string>, Straggler> costliest;
  for (const FlightGroup& group : groups)
    for (Straggler& one : stragglers_of(group, bounds)) {
      const auto place = std::pair(one.rank, one.host);
      const auto known = costliest.find(place);
      if (known == costliest.end() || one.cost > known->second.cost)
        costliest.insert_or_assign(place, std::move(one));
    }
  std::vector<Straggler> found;
  for (auto& [rank, one] : costliest) found.push_back(std::move(one));
  sort_by_cost(found);
  return found;
}

std::string words_of(const Straggler& straggler) {
  return format(
      "rank {} on host {} entered {} % of the last {} collectives of {} last, {} behind the others "
      "in the median: they waited {} % of the time for it",
      straggler.rank, straggler.host, percent_of(straggler.last), straggler.collectives,
      straggler.group, span_text(straggler.behind), percent_of(straggler.cost));
}

}  // namespace lockstep

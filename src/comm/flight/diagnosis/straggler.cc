#include "comm/flight/diagnosis/straggler.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "comm/flight/diagnosis/flight_text.h"

namespace lockstep::comm {
namespace {

constexpr std::array<std::string_view, 5> kSynchronizingOperations = {
    "all_reduce", "reduce_scatter", "all_gather", "all_to_all", "barrier"};

// A collective that all ranks have completed: for each rank the times when it entered and ended it.
struct CompletedCollective {
  std::vector<FlightTime> entered;
  std::vector<FlightTime> ended;

  // The wait of the rank that waited least: about the time of the transfer.
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

std::vector<CompletedCollective> completed_collectives(const FlightGroup& group,
                                                       std::size_t newest) {
  std::vector<CompletedCollective> collectives;
  for (const FlightRow& row : flight_rows(group, FlightRecorder::kRecords)) {
    if (!is_complete(row) ||
        std::ranges::find(kSynchronizingOperations, row.first_recorded().name) ==
            kSynchronizingOperations.end())
      continue;
    CompletedCollective& collective = collectives.emplace_back();
    for (const FlightOperation* call : row.calls) {
      collective.entered.push_back(*call->started);
      collective.ended.push_back(*call->ended);
    }
  }
  if (collectives.size() > newest)
    collectives.erase(collectives.begin(), collectives.end() - static_cast<std::ptrdiff_t>(newest));
  return collectives;
}

// A quarter of them.
std::vector<const CompletedCollective*> fastest(
    const std::vector<CompletedCollective>& collectives) {
  std::vector<const CompletedCollective*> sorted;
  for (const CompletedCollective& collective : collectives) sorted.push_back(&collective);
  std::ranges::stable_sort(sorted, {}, &CompletedCollective::transfer);
  sorted.resize((sorted.size() + 3) / 4);
  return sorted;
}

// The offset of the clock of each rank's host relative to rank 0's host.
std::vector<Nanoseconds> clock_offsets(const FlightGroup& group,
                                       const std::vector<CompletedCollective>& collectives) {
  const auto quick = fastest(collectives);
  std::map<std::string, std::size_t> first_on;  // by host its first rank
  std::map<std::string, Nanoseconds> ahead;
  for (std::size_t i = 0; i < group.logs.size(); ++i)
    if (first_on.emplace(group.logs[i].host, i).second) {
      std::vector<Nanoseconds> differences;
      for (const CompletedCollective* collective : quick)
        differences.push_back(collective->ended[i] - collective->ended[0]);
      ahead[group.logs[i].host] = lower_median(std::move(differences));
    }
  std::vector<Nanoseconds> clocks;
  for (const FlightLog& log : group.logs) clocks.push_back(ahead.at(log.host));
  return clocks;
}

void align_clocks(const FlightGroup& group, std::vector<CompletedCollective>& collectives) {
  const auto clocks = clock_offsets(group, collectives);
  for (CompletedCollective& collective : collectives)
    for (std::size_t i = 0; i < clocks.size(); ++i) {
      collective.entered[i] -= clocks[i];
      collective.ended[i] -= clocks[i];
    }
}

// For each collective.
std::vector<Nanoseconds> lags_of(std::size_t rank,
                                 const std::vector<CompletedCollective>& collectives) {
  std::vector<Nanoseconds> lags;
  for (const CompletedCollective& collective : collectives) {
    auto others = collective.entered;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(rank));
    lags.push_back(collective.entered[rank] - lower_median(std::move(others)));
  }
  return lags;
}

double share_last(std::size_t rank, const std::vector<CompletedCollective>& collectives) {
  const auto count = std::ranges::count_if(collectives, [&](const CompletedCollective& collective) {
    return std::ranges::max(collective.entered) == collective.entered[rank];
  });
  return static_cast<double>(count) / static_cast<double>(collectives.size());
}

Nanoseconds span_of(const std::vector<CompletedCollective>& collectives) {
  return std::ranges::max(collectives.back().ended) - std::ranges::min(collectives.front().entered);
}

Straggler measure_straggler(const FlightGroup& group, std::size_t rank,
                            const std::vector<CompletedCollective>& collectives) {
  const auto lags = lags_of(rank, collectives);
  Nanoseconds waited{};
  for (const Nanoseconds lag : lags) waited += std::max(lag, Nanoseconds(0));
  const FlightLog& log = group.logs[rank];
  return {.rank = log.rank,
          .host = log.host,
          .group = group.name,
          .last_share = share_last(rank, collectives),
          .median_lag = lower_median(lags),
          .cost_share = static_cast<double>(waited.count()) /
                        static_cast<double>(std::max(span_of(collectives), Nanoseconds(1)).count()),
          .collectives = collectives.size()};
}

// The minimum share of collectives that a rank must enter last to be named. By chance the share is
// one of `size`; with two ranks none can enter last twice as often as that.
double share_least(const FlightGroup& group, const StragglerThresholds& bounds) {
  constexpr double kShareMost = 0.75;
  return std::min(kShareMost, bounds.last_ratio_min / static_cast<double>(group.size));
}

void sort_by_cost(std::vector<Straggler>& found) {
  std::ranges::stable_sort(found, std::ranges::greater(), &Straggler::cost_share);
}

}  // namespace

std::vector<Straggler> find_stragglers(const FlightGroup& group,
                                       const StragglerThresholds& bounds) {
  if (group.size < 2 || static_cast<int>(group.logs.size()) != group.size) return {};
  if (!std::ranges::all_of(group.logs, &FlightLog::ends_are_exact)) return {};
  auto collectives = completed_collectives(group, bounds.collectives_max);
  if (collectives.empty() || collectives.size() < bounds.collectives_min) return {};
  align_clocks(group, collectives);
  std::vector<Straggler> found;
  for (std::size_t rank = 0; rank < group.logs.size(); ++rank)
    if (auto one = measure_straggler(group, rank, collectives);
        one.median_lag >= bounds.lag_min && one.cost_share >= bounds.cost_share_min &&
        one.last_share >= share_least(group, bounds))
      found.push_back(std::move(one));
  sort_by_cost(found);
  return found;
}

std::vector<Straggler> find_stragglers(const std::vector<FlightGroup>& groups,
                                       const StragglerThresholds& bounds) {
  std::map<std::pair<int, std::string>, Straggler> costliest;
  for (const FlightGroup& group : groups)
    for (Straggler& one : find_stragglers(group, bounds)) {
      const auto rank_on_host = std::pair(one.rank, one.host);
      const auto known = costliest.find(rank_on_host);
      if (known == costliest.end() || one.cost_share > known->second.cost_share)
        costliest.insert_or_assign(rank_on_host, std::move(one));
    }
  std::vector<Straggler> found;
  for (auto& [rank, one] : costliest) found.push_back(std::move(one));
  sort_by_cost(found);
  return found;
}

std::string text(const Straggler& straggler) {
  return format(
      "rank {} on host {} entered {} % of the last {} collectives of {} last, {} behind the others "
      "in the median: they waited {} % of the time for it",
      straggler.rank, straggler.host, percent_of(straggler.last_share), straggler.collectives,
      straggler.group, duration_text(straggler.median_lag), percent_of(straggler.cost_share));
}

}  // namespace lockstep::comm

#include "comm/cost/costs.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/format.h"
#include "map/query.h"

namespace lockstep {
namespace {

constexpr double kLongest = 60;  // seconds, of any constant

LevelCost level_of(const MeasuredLevel& measured) {
  return {measured.latency_us * 1e-6, measured.overhead_us * 1e-6,
          1 / (measured.gbit_per_second * 125e6)};
}

// The slowest way between two hosts of the map, as far as its links are declared. A wire's latency
// comes on top of what the two ends do for a message.
void take_declared(const Map& map, LevelCost& between) {
  const auto all = hosts(map);
  std::optional<Bandwidth> least;
  std::optional<Duration> longest;
  for (std::size_t i = 1; i < all.size(); ++i) {
    const auto link = link_between(map, {all.front()->id, 0}, {all[i]->id, 0});
    if (!link) return;
    if (link->bandwidth) least = std::min(least.value_or(*link->bandwidth), *link->bandwidth);
    if (link->latency) longest = std::max(longest.value_or(*link->latency), *link->latency);
  }
  if (least) between.per_byte = 1 / static_cast<double>(least->count());
  if (longest) between.latency = 2 * between.overhead + in_seconds(*longest);
}

std::array<double, 7> numbers_of(const Costs& costs) {
  const auto& [within, between, reduction] = costs;
  return {within.latency,   within.overhead,  within.per_byte, between.latency,
          between.overhead, between.per_byte, reduction};
}

Error unreadable(std::string_view words) {
  return {Code::invalid,
          format("'{}' are not the costs of communication: expected seven times in seconds, each "
                 "from 0 to {}, as `lockstep probe --words` prints them",
                 words, kLongest)};
}

}  // namespace

Costs costs_of(const Map& map) {
  Costs costs;
  take_declared(map, costs.between_hosts);
  if (!map.measured) return costs;
  if (map.measured->within_host) costs.within_host = level_of(*map.measured->within_host);
  if (map.measured->between_hosts) costs.between_hosts = level_of(*map.measured->between_hosts);
  if (map.measured->reduction_gbyte_per_second)
    costs.reduction = 1 / (*map.measured->reduction_gbyte_per_second * 1e9);
  return costs;
}

std::string to_words(const Costs& costs) { return joined(numbers_of(costs), " "); }

Result<Costs> costs_from_words(std::string_view words) {
  std::array<double, 7> numbers{};
  const char *at = words.data(), *const end = words.data() + words.size();
  for (double& number : numbers) {
    while (at != end && *at == ' ') ++at;
    const auto read = std::from_chars(at, end, number);
    if (read.ec != std::errc() || !(number >= 0) || number > kLongest) return unreadable(words);
    at = read.ptr;
  }
  if (at != end) return unreadable(words);
  const auto& n = numbers;
  return Costs{{n[0], n[1], n[2]}, {n[3], n[4], n[5]}, n[6]};
}

Result<Costs> costs_in(const Environment& environment) {
  const auto found = environment.find(std::string(kCostsVariable));
  if (found == environment.end() || found->second.empty()) return Costs{};
  auto costs = costs_from_words(found->second);
  if (!costs) return std::move(costs).error().within(kCostsVariable);
  return costs;
}

}  // namespace lockstep

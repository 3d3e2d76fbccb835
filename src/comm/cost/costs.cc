#include "comm/cost/costs.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

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
  const auto& within = costs.within_host;
  const auto& between = costs.between_hosts;
  return {within.latency,   within.overhead,  within.per_byte, between.latency,
          between.overhead, between.per_byte, costs.reduction};
}

Error unreadable(std::string_view words) {
  return {Code::invalid,
          format("'{}' are not the costs of communication: expected seven times in seconds, each "
                 "from 0 to {}, and what was tuned, as `lockstep probe --words` prints them",
                 words, kLongest)};
}

// Takes its parts from the front of a line, with spaces between.
class Words {
 public:
  explicit Words(std::string_view words) : rest_(words) {}

  template <class Number>
  std::optional<Number> number() {
    const auto part = word();
    Number value{};
    const auto read = std::from_chars(part.data(), part.data() + part.size(), value);
    if (read.ec != std::errc() || read.ptr != part.data() + part.size()) return std::nullopt;
    return value;
  }
  std::string_view word() {
    skip_spaces();
    const auto part = rest_.substr(0, rest_.find(' '));
    rest_.remove_prefix(part.size());
    return part;
  }
  bool empty() {
    skip_spaces();
    return rest_.empty();
  }

 private:
  void skip_spaces() { rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size())); }
  std::string_view rest_;
};

std::string to_words(const TunedRange& range) {
  return format("; {} {} {} {} {}", range.operation, range.hosts, range.ranks, range.up_to.count(),
                range.plan);
}

std::optional<TunedRange> range_from_words(std::string_view line) {
  Words words(line);
  TunedRange range;
  range.operation = words.word();
  const auto hosts = words.number<int>(), ranks = words.number<int>();
  const auto bytes = words.number<std::int64_t>();
  range.plan = words.word();
  if (!hosts || !ranks || !bytes || range.plan.empty() || !words.empty()) return std::nullopt;
  range.hosts = *hosts;
  range.ranks = *ranks;
  range.up_to = Bytes(*bytes);
  return range;
}

std::optional<Costs> constants_from_words(std::string_view line) {
  Words words(line);
  std::array<double, 7> n{};
  for (double& number : n) {
    const auto read = words.number<double>();
    if (!read || !(*read >= 0) || *read > kLongest) return std::nullopt;
    number = *read;
  }
  if (!words.empty()) return std::nullopt;
  return Costs{{n[0], n[1], n[2]}, {n[3], n[4], n[5]}, n[6]};
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
  costs.tuned = map.measured->tuned;
  return costs;
}

Costs assumed_costs(std::optional<Bandwidth> link_speed) {
  constexpr double kPayload = 0.944;  // of a frame over Ethernet, by TCP over IPv4
  Costs costs;
  if (link_speed)
    costs.between_hosts.per_byte = 1 / (kPayload * static_cast<double>(link_speed->count()));
  return costs;
}

std::string to_words(const Costs& costs) {
  std::string words = joined(numbers_of(costs), " ");
  for (const TunedRange& range : costs.tuned) words += to_words(range);
  return words;
}

Result<Costs> costs_from_words(std::string_view words) {
  auto end = std::min(words.find(';'), words.size());
  auto costs = constants_from_words(words.substr(0, end));
  if (!costs) return unreadable(words);
  while (end != words.size()) {
    const auto begin = end + 1;
    end = std::min(words.find(';', begin), words.size());
    auto range = range_from_words(words.substr(begin, end - begin));
    if (!range) return unreadable(words);
    costs->tuned.push_back(std::move(*range));
  }
  return *std::move(costs);
}

Result<std::optional<Costs>> costs_in(const Environment& environment) {
  const auto found = environment.find(std::string(kCostsVariable));
  if (found == environment.end() || found->second.empty()) return std::optional<Costs>();
  auto costs = costs_from_words(found->second);
  if (!costs) return std::move(costs).error().within(kCostsVariable);
  return std::optional(*std::move(costs));
}

}  // namespace lockstep

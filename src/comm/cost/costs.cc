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

namespace lockstep::comm {
namespace {

constexpr double kLongest = 60;  // seconds, of any constant

LevelCost level_of(const map::MeasuredLevel& measured) {
  return {measured.latency_us * 1e-6, measured.overhead_us * 1e-6,
          1 / (measured.gbit_per_second * 125e6)};
}

// The slowest path between two hosts of the map, as far as its links are declared. The latency of a
// wire is added to the time that the two ends need for a message.
void apply_declared_links(const map::ClusterMap& map, LevelCost& between) {
  const auto all = map::hosts(map);
  std::optional<Bandwidth> least;
  std::optional<Duration> longest;
  for (std::size_t i = 1; i < all.size(); ++i) {
    const auto link = map::link_between(map, {all.front()->id, 0}, {all[i]->id, 0});
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

Error unreadable(std::string_view costs_text) {
  return {Code::invalid,
          format("'{}' are not the costs of communication: expected seven times in seconds, each "
                 "from 0 to {}, and what was tuned, as `lockstep probe --words` prints them",
                 costs_text, kLongest)};
}

// Reads the fields from the start of a line, separated by spaces.
class FieldReader {
 public:
  explicit FieldReader(std::string_view line) : rest_(line) {}

  template <class Number>
  std::optional<Number> number_field() {
    const auto part = text_field();
    Number value{};
    const auto read = std::from_chars(part.data(), part.data() + part.size(), value);
    if (read.ec != std::errc() || read.ptr != part.data() + part.size()) return std::nullopt;
    return value;
  }
  std::string_view text_field() {
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

std::string encode_tuned_range(const map::TunedRange& range) {
  return format("; {} {} {} {} {}", range.operation, range.hosts, range.ranks, range.up_to.count(),
                range.plan);
}

std::optional<map::TunedRange> parse_tuned_range(std::string_view line) {
  FieldReader fields(line);
  map::TunedRange range;
  range.operation = fields.text_field();
  const auto hosts = fields.number_field<int>(), ranks = fields.number_field<int>();
  const auto bytes = fields.number_field<std::int64_t>();
  range.plan = fields.text_field();
  if (!hosts || !ranks || !bytes || range.plan.empty() || !fields.empty()) return std::nullopt;
  range.hosts = *hosts;
  range.ranks = *ranks;
  range.up_to = Bytes(*bytes);
  return range;
}

std::optional<Costs> parse_cost_constants(std::string_view line) {
  FieldReader fields(line);
  std::array<double, 7> n{};
  for (double& number : n) {
    const auto read = fields.number_field<double>();
    if (!read || !(*read >= 0) || *read > kLongest) return std::nullopt;
    number = *read;
  }
  if (!fields.empty()) return std::nullopt;
  return Costs{{n[0], n[1], n[2]}, {n[3], n[4], n[5]}, n[6]};
}

}  // namespace

Costs costs_of(const map::ClusterMap& map) {
  Costs costs;
  apply_declared_links(map, costs.between_hosts);
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

std::string encode_costs(const Costs& costs) {
  std::string costs_text = joined(numbers_of(costs), " ");
  for (const map::TunedRange& range : costs.tuned) costs_text += encode_tuned_range(range);
  return costs_text;
}

Result<Costs> parse_costs(std::string_view costs_text) {
  auto end = std::min(costs_text.find(';'), costs_text.size());
  auto costs = parse_cost_constants(costs_text.substr(0, end));
  if (!costs) return unreadable(costs_text);
  while (end != costs_text.size()) {
    const auto begin = end + 1;
    end = std::min(costs_text.find(';', begin), costs_text.size());
    auto range = parse_tuned_range(costs_text.substr(begin, end - begin));
    if (!range) return unreadable(costs_text);
    costs->tuned.push_back(std::move(*range));
  }
  return *std::move(costs);
}

Result<std::optional<Costs>> costs_from_environment(const Environment& environment) {
  const auto found = environment.find(std::string(kCostsVariable));
  if (found == environment.end() || found->second.empty()) return std::optional<Costs>();
  auto costs = parse_costs(found->second);
  if (!costs) return std::move(costs).error().with_context(kCostsVariable);
  return std::optional(*std::move(costs));
}

}  // namespace lockstep::comm

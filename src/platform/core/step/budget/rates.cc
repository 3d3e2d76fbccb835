#include "platform/core/step/budget/rates.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "map/labels.h"
#include "map/query.h"

namespace lockstep::step {
namespace {

constexpr std::string_view kKindLabel = "device-kind";

std::optional<map::DeviceKind> device_kind(const map::Host& host) {
  for (const map::Island& island : host.islands)
    if (!island.devices.empty()) return island.devices.front().kind;
  return std::nullopt;
}

std::string kind_of_devices(const map::Host& host) {
  if (const auto label = host.labels.find(std::string(kKindLabel)); label != host.labels.end())
    return label->second;
  return std::string(name_of(device_kind(host).value_or(map::DeviceKind::gpu)));
}

// For a node of the run.
bool is_suitable(const map::Host& host, map::DeviceKind kind, const model::RunSpec& spec) {
  return (!spec.needs.kind || *spec.needs.kind == kind) &&
         (!spec.needs.labels || map::has_labels(host.labels, *spec.needs.labels)) &&
         std::cmp_greater_equal(map::device_count(host), spec.devices);
}

// Suitable hosts with devices of one DeviceKind.
struct KindOfHosts {
  int hosts = 0;
  std::string heaviest{};  // the kind with the largest weight, as rates name it
};

}  // namespace

std::string device_kind_of(const map::ClusterMap& map, const std::string& host) {
  const map::Host* found = map::find_host(map, host);
  return found ? kind_of_devices(*found) : std::string(name_of(map::DeviceKind::gpu));
}

std::string device_kind_without_host(const map::ClusterMap& map, const PodFilter& is_of_engine,
                                     const model::RunSpec& spec, const WeightOf& weight_of) {
  std::map<map::DeviceKind, KindOfHosts> found;
  for (const map::Pod& pod : map.pods) {
    if (!is_of_engine(pod)) continue;
    for (const map::Host* host : map::hosts(pod)) {
      const auto kind = device_kind(*host);
      if (!kind || !is_suitable(*host, *kind, spec)) continue;
      KindOfHosts& of_kind = found[*kind];
      ++of_kind.hosts;
      std::string name = kind_of_devices(*host);
      if (of_kind.heaviest.empty() || weight_of(name) > weight_of(of_kind.heaviest))
        of_kind.heaviest = std::move(name);
    }
  }
  for (const int hosts_min : {model::node_count(spec), 1})
    for (const auto& [kind, hosts] : found)
      if (hosts.hosts >= hosts_min) return hosts.heaviest;
  return std::string(name_of(spec.needs.kind.value_or(map::DeviceKind::gpu)));
}

int weight_of_kind(const Rates& rates, const std::string& kind) {
  const auto rate = rates.find(kind);
  return rate == rates.end() ? budget::Rate{}.weight_percent : rate->second.weight_percent;
}

int least_weight(const map::ClusterMap& map, const Rates& rates) {
  if (rates.empty()) return budget::Rate{}.weight_percent;
  int least = budget::kWeightMax;
  for (const map::Host* host : map::hosts(map))
    least = std::min(least, weight_of_kind(rates, kind_of_devices(*host)));
  return least;
}

int price_percent(const model::Settings& settings, model::RunClass run_class) {
  return run_class == model::RunClass::preemptible ? settings.preemptible_price_percent : 100;
}

}  // namespace lockstep::step

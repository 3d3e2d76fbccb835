#include "platform/core/step/budget/rates.h"

#include <algorithm>
#include <string_view>

#include "map/query.h"

namespace lockstep::step {
namespace {

constexpr std::string_view kKindLabel = "device-kind";

std::string kind_of_devices(const map::Host& host) {
  if (const auto label = host.labels.find(std::string(kKindLabel)); label != host.labels.end())
    return label->second;
  for (const map::Island& island : host.islands)
    if (!island.devices.empty()) return std::string(name_of(island.devices.front().kind));
  return std::string(name_of(map::DeviceKind::gpu));
}

}  // namespace

std::string device_kind_of(const map::ClusterMap& map, const std::string& host) {
  const map::Host* found = map::find_host(map, host);
  return found ? kind_of_devices(*found) : std::string(name_of(map::DeviceKind::gpu));
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

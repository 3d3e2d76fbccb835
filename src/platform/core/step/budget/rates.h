// Rates: the weight of a device by the kind of its host, and the discount of the run's class.
#pragma once

#include <map>
#include <string>

#include "map/map.h"
#include "platform/core/budget/charge.h"
#include "platform/core/model/run_class.h"
#include "platform/core/model/settings/settings.h"

namespace lockstep::step {

using Rates = std::map<std::string, budget::Rate>;  // by kind

// The kind of the host's devices, as rates name it.
std::string device_kind_of(const map::ClusterMap& map, const std::string& host);
// In percent of a device of weight 1, as the next two.
int weight_of_kind(const Rates& rates, const std::string& kind);
// The least of all kinds of devices on the map.
int least_weight(const map::ClusterMap& map, const Rates& rates);
int price_percent(const model::Settings& settings, model::RunClass run_class);

}  // namespace lockstep::step

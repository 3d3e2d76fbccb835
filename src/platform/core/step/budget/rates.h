// Rates: the weight of a device by the kind of its host, and the discount of the run's class.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "map/map.h"
#include "platform/core/budget/charge.h"
#include "platform/core/model/run.h"
#include "platform/core/model/run_class.h"
#include "platform/core/model/settings/settings.h"

namespace lockstep::step {

using Rates = std::map<std::string, budget::Rate>;  // by kind

// The kind of the host's devices, as rates name it.
std::string device_kind_of(const map::ClusterMap& map, const std::string& host);
// The kind that rates name for a node of the run for which its engine has named no host yet. These
// are GPUs if the run fits on them; if the engine has several kinds, the one with the largest
// weight.
using PodFilter = std::function<bool(const map::Pod&)>;
using WeightOf = std::function<int(const std::string& kind)>;
std::string device_kind_without_host(const map::ClusterMap& map, const PodFilter& is_of_engine,
                                     const model::RunSpec& spec, const WeightOf& weight_of);
// In percent of a device of weight 1, as the next two.
int weight_of_kind(const Rates& rates, const std::string& kind);
// The least of all kinds of devices on the map.
int least_weight(const map::ClusterMap& map, const Rates& rates);
int price_percent(const model::Settings& settings, model::RunClass run_class);

}  // namespace lockstep::step

// Labels of hosts, for which a run may ask.
#pragma once

#include "base/result.h"
#include "map/map.h"
#include "platform/core/model/needs.h"

namespace lockstep::step {

// An error if no host of the map has all labels that are asked for. It tells which values there
// are.
Result<void> check_labels_exist(const map::ClusterMap& map, const model::Needs& needs);

}  // namespace lockstep::step

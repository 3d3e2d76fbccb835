// One map of the maps of several engines.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "map/map.h"

namespace lockstep::map {

struct EngineMap {
  std::string engine;
  ClusterMap map;
};

// The pods of all, in this order, each with its engine. A host has it as the label `engine`, for
// which runs may ask, unless it has such a label. The links between pods are unknown. Fails if two
// have a host of the same id.
Result<ClusterMap> join_maps(std::vector<EngineMap> maps);

}  // namespace lockstep::map

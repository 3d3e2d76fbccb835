// A map of leaves that are known by the names of their pods and their own.
#pragma once

#include <map>
#include <string>

#include "map/map.h"

namespace lockstep::map {

using LeavesByPod = std::map<std::string, std::map<std::string, Leaf>>;

// Pods and leaves get their names, and are in the order of those.
ClusterMap map_of_leaves(std::string name, LeavesByPod pods);

}  // namespace lockstep::map

#include "map/map_of_leaves.h"

#include <utility>

namespace lockstep::map {

ClusterMap map_of_leaves(std::string name, LeavesByPod pods) {
  ClusterMap map;
  map.name = std::move(name);
  for (auto& [pod_name, leaves] : pods) {
    Pod pod;
    pod.name = pod_name;
    for (auto& [leaf_name, leaf] : leaves) {
      leaf.name = leaf_name;
      pod.leaves.push_back(std::move(leaf));
    }
    map.pods.push_back(std::move(pod));
  }
  return map;
}

}  // namespace lockstep::map

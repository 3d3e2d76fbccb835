#include "map/join_maps.h"

#include <utility>

#include "base/format.h"
#include "map/query.h"

namespace lockstep::map {
namespace {

Result<void> check_no_common_host(const ClusterMap& map, const EngineMap& more) {
  for (const Host* host : hosts(more.map))
    if (find_host(map, host->id))
      return Error{Code::invalid,
                   format("the engines {} and {} both have a host '{}': leave it out of one of "
                          "them, or give it another id in the file of --map",
                          engine_of(map, host->id), more.engine, host->id)};
  return {};
}

}  // namespace

Result<ClusterMap> join_maps(std::vector<EngineMap> maps) {
  ClusterMap all;
  for (EngineMap& one : maps) {
    TRY(check_no_common_host(all, one));
    if (all.name.empty()) all.name = one.map.name;
    for (Pod& pod : one.map.pods) {
      pod.engine = one.engine;
      for (Leaf& leaf : pod.leaves)
        for (Host& host : leaf.hosts) host.labels.emplace("engine", one.engine);
      all.pods.push_back(std::move(pod));
    }
  }
  return all;
}

}  // namespace lockstep::map

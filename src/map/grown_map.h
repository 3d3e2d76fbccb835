// The map of a cluster whose engine sees more hosts than at the start.
#pragma once

#include <functional>
#include <string>

#include "map/map.h"

namespace lockstep::map {

// `seen`, with each host of `before` that it lacks: nodes may still have devices there. A host of
// both whose devices differ keeps those of `before` while `is_used`, since placements name them by
// their index. A host with GPUs keeps them while none is seen: their driver or plugin starts.
ClusterMap grown_map(const ClusterMap& before, ClusterMap seen,
                     const std::function<bool(const std::string& host)>& is_used);

}  // namespace lockstep::map

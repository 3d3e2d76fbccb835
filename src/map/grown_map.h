// The map of a cluster whose engine sees more hosts than at the start.
#pragma once

#include "map/map.h"

namespace lockstep::map {

// `seen`, with each host of `before` that it lacks: nodes may still have devices there. A host of
// both keeps its devices, since placements name them by their index.
ClusterMap grown_map(const ClusterMap& before, ClusterMap seen);

}  // namespace lockstep::map

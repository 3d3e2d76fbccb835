// check() for a map from a file: the errors name its lines.
#pragma once

#include "base/result.h"
#include "map/map.h"
#include "text/convert.h"

namespace lockstep::map {

// `root` is the location of the map itself.
Result<void> check_at(const ClusterMap& map, const JsonLocation& root);

}  // namespace lockstep::map

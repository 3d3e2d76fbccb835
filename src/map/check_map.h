// check() of a map that came from a file: the errors name its lines.
#pragma once

#include "base/result.h"
#include "map/map.h"
#include "text/convert.h"

namespace lockstep {

// `root` is the place of the map itself.
Result<void> check_at(const Map& map, const Place& root);

}  // namespace lockstep

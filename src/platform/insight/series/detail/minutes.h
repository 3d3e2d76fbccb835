// Points of nodes, one a second, that become one for each minute: the mean, and the least and the
// greatest value as series of their own. A step of a node is a time in seconds since 1970.
#pragma once

#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "platform/insight/series/detail/segment.h"

namespace lockstep::insight::series {

// At least half of its points of nodes are older, and more than one of a minute.
bool has_old_seconds(const Segment& segment, Time before);

// Copies the chunks that stay, with one point for each minute of nodes before that time.
Result<void> copy_by_minutes(const Segment& segment, const std::vector<bool>& kept, Time before,
                             SegmentWriter& out);

}  // namespace lockstep::insight::series

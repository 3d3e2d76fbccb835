// Merge of neighbouring segments of a run into one.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "base/result.h"
#include "platform/insight/series/detail/segment.h"

namespace lockstep::insight::series {

// From the oldest to the newest. `between` is called between series: work that cannot wait; the
// merge ends with Code::cancelled when it returns false. Without an error all points are in `out`,
// which is not committed yet.
Result<void> merge_segments(std::span<const std::shared_ptr<const Segment>> segments,
                            SegmentWriter& out, const std::function<bool()>& between);

}  // namespace lockstep::insight::series

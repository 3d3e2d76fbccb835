// Curves: from the pieces of a series to the few points of each pixel. docs/design/series.md,
// "Queries", has the method.
#pragma once

#include <span>
#include <string_view>

#include "platform/insight/series/detail/pieces.h"
#include "platform/insight/series/series_store.h"

namespace lockstep::insight::series {

// The number of points or pixels that a query asks for.
Result<void> check_count(std::int64_t count, std::string_view what);

// `pixels` is at least 1.
Curve curve_of(std::span<const Piece> pieces, const StepRange& range, std::int64_t pixels,
               const Unreadable& unreadable);

// The points of all pieces; `most` is at least 1.
PointsPage page_of(std::span<const Piece> pieces, const StepRange& range, const PointCursor& from,
                   std::int64_t most, const Unreadable& unreadable);

}  // namespace lockstep::insight::series

// Curves: from the pieces of a series to the few points of each pixel. docs/design/series.md,
// "Queries", has the method.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "platform/insight/series/detail/pieces.h"
#include "platform/insight/series/series_store.h"

namespace lockstep::insight::series {

// The number of points or pixels that a query asks for.
Result<void> check_count(std::int64_t count, std::string_view what);

// By the query's range, pixels and borders.
Curve curve_of(std::span<const Piece> pieces, const CurveQuery& query,
               const Unreadable& unreadable);
// Code::invalid: too many pixels, or borders that do not ascend.
Result<void> check_pixels(const CurveQuery& query);

// For each of the steps its value, or that of the last step before it.
std::vector<std::optional<double>> values_of(std::span<const Piece> pieces,
                                             std::span<const std::int64_t> steps,
                                             const Unreadable& unreadable);

// The points of all pieces; `most` is at least 1.
PointsPage page_of(std::span<const Piece> pieces, const StepRange& range, const PointCursor& from,
                   std::int64_t most, const Unreadable& unreadable);

}  // namespace lockstep::insight::series

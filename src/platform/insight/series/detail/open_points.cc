#include "platform/insight/series/detail/open_points.h"

#include <algorithm>

#include "platform/insight/series/codec/bytes.h"
#include "platform/insight/series/detail/hash.h"

namespace lockstep::insight::series {

std::size_t HashOfSeries::operator()(const SeriesKey& key) const {
  const auto seed = (static_cast<std::uint64_t>(key.part) << 32) ^
                    static_cast<std::uint64_t>(static_cast<std::uint32_t>(key.index));
  return hash_of(bytes_of(key.metric), seed);
}

std::vector<SeriesPoint> OpenSeries::sorted_points() const {
  std::vector<SeriesPoint> copy = points;
  if (!sorted) std::ranges::stable_sort(copy, {}, &SeriesPoint::step);
  return copy;
}

}  // namespace lockstep::insight::series

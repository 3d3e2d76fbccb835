// The names of segments: demo/42/00000007-00000014-1 has the points of run demo/42 from the
// generations 7 to 14 of the log, and is of level 1.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/units.h"
#include "platform/core/model/ids.h"

namespace lockstep::insight::series {

struct SegmentName {
  std::int64_t first = 0;  // generations
  std::int64_t last = 0;
  int level = 0;
  Bytes size{};

  bool covers(const SegmentName& other) const {
    return first <= other.first && other.last <= last && level > other.level;
  }
};

std::string text(const model::RunId& run, const SegmentName& name);

struct NamedSegment {
  model::RunId run;
  SegmentName name;
};
// None: it is no such name.
std::optional<NamedSegment> parse_segment_name(std::string_view name);

}  // namespace lockstep::insight::series

#include "platform/insight/series/detail/segment_name.h"

#include <array>
#include <charconv>

#include "base/format.h"

namespace lockstep::insight::series {

std::string text(const model::RunId& run, const SegmentName& name) {
  return format("{}/{}/{:08}-{:08}-{}", run.project, run.number, name.first, name.last, name.level);
}

std::optional<NamedSegment> parse_segment_name(std::string_view name) {
  const std::size_t slash = name.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  NamedSegment found{.run = {std::string(name.substr(0, slash)), 0}, .name = {}};
  std::array<std::int64_t, 4> numbers{};
  constexpr std::string_view kEnds = "/--";
  const char* at = name.data() + slash + 1;
  const char* end = name.data() + name.size();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto [next, failed] = std::from_chars(at, end, numbers[i]);
    const bool ends = i < kEnds.size() ? next != end && *next == kEnds[i] : next == end;
    if (failed != std::errc() || !ends) return std::nullopt;
    at = next + 1;
  }
  found.run.number = numbers[0];
  found.name = {.first = numbers[1], .last = numbers[2], .level = static_cast<int>(numbers[3])};
  return found;
}

}  // namespace lockstep::insight::series

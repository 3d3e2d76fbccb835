// How a buffer is cut for several ranks, or into pieces.
#pragma once

#include <algorithm>
#include <cstddef>

namespace lockstep {

struct ByteRange {
  std::size_t begin = 0, end = 0;
  std::size_t count() const { return end - begin; }
};

// The i-th of `parts` nearly equal parts of [0, bytes), cut between cache lines, so that no two
// ranks write one line. parts > 0.
inline ByteRange slice(std::size_t bytes, std::size_t parts, std::size_t i) {
  constexpr std::size_t kLine = 64;
  const auto lines = (bytes + kLine - 1) / kLine;
  const auto at = [&](std::size_t part) {
    return std::min(bytes, (lines / parts * part + std::min(lines % parts, part)) * kLine);
  };
  return {at(i), at(i + 1)};
}

}  // namespace lockstep

// How a buffer is cut for several ranks, or into pieces.
#pragma once

#include <algorithm>
#include <cstddef>

namespace lockstep::comm {

struct ByteRange {
  std::size_t begin = 0, end = 0;
  std::size_t count() const { return end - begin; }
};

// The i-th of `parts` nearly equal parts of [0, bytes), cut between cache lines, so that no two
// ranks write one line; the first is the longest. parts > 0.
inline ByteRange slice(std::size_t bytes, std::size_t parts, std::size_t i) {
  constexpr std::size_t kLine = 64;
  const auto lines = (bytes + kLine - 1) / kLine;
  const auto at = [&](std::size_t part) {
    return std::min(bytes, (lines / parts * part + std::min(lines % parts, part)) * kLine);
  };
  return {at(i), at(i + 1)};
}

struct ElementRange {
  std::size_t begin = 0, end = 0;
  std::size_t count() const { return end - begin; }
};

// The i-th of `parts` nearly equal parts of a range. parts > 0.
inline ElementRange cut(ElementRange whole, std::size_t parts, std::size_t i) {
  const auto base = whole.count() / parts, rest = whole.count() % parts;
  const auto begin = whole.begin + i * base + std::min(i, rest);
  return {begin, begin + base + (i < rest ? 1 : 0)};
}
inline ElementRange cut(std::size_t total, std::size_t parts, std::size_t i) {
  return cut(ElementRange{0, total}, parts, i);
}

// The number of pieces of at most `room` bytes for `total` bytes. At least one, because an empty
// message also identifies its sender's call. room > 0.
inline std::size_t piece_count(std::size_t total, std::size_t room) {
  return std::max<std::size_t>(1, (total + room - 1) / room);
}

}  // namespace lockstep::comm

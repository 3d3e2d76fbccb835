// Piece: what is known of a stretch of a series - one point or many - and how many pieces become
// the few points of an answer. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "platform/insight/insight.h"

namespace lockstep::insight {

struct Piece {
  std::int64_t count = 0;
  Point first, last;              // by step
  std::optional<Point> min, max;  // by value; none if all values are NaN
  std::optional<Point> nan;       // the first that is not a number
};

Piece piece_of(const Point& point);
// `next` follows `piece`: all its steps are greater.
void append(Piece& piece, const Piece& next);

// The points of a series whose pieces these are, in order: all of them if each is one point and
// there is room, else of each of as many equal stretches as there is room for the first, the last,
// the least, the greatest and the first NaN. At most `most` points, which is at least 1; the last
// one is among them.
std::vector<Point> thin(const std::vector<Piece>& pieces, std::int64_t most);

}  // namespace lockstep::insight

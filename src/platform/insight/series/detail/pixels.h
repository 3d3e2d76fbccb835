// Pixels: collects a series by steps into pixels of equal width, and keeps of each the first, last,
// least and greatest point and the first NaN.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "platform/insight/series/detail/pieces.h"

namespace lockstep::insight::series {

class Pixels {
 public:
  // `pixels` of them, at least 1, from the first to the last step of the range; or those that begin
  // at the borders, which outlive this.
  Pixels(const StepRange& range, std::int64_t pixels, std::span<const std::int64_t> borders,
         const Unreadable& unreadable);

  // The pixel of a step of the range.
  std::int64_t pixel_of(std::int64_t step) const;

  // Its step is after all before.
  void add(const SeriesPoint& point);

  // A point of a chunk by its index, of which steps and times are decoded only if it is kept.
  struct Candidate {
    double value = 0;
    const Piece* piece = nullptr;  // none: `point` is known
    std::uint32_t index = 0;       // in the chunk
    SeriesPoint point{};
  };
  // Points that follow each other; the first one is of `step`.
  struct Summary {
    std::int64_t step = 0;
    std::int64_t count = 0;
    Candidate first, last;
    std::optional<Candidate> min, max, nan;
  };
  // Goes into the pixel of the summary's first step.
  void add(const Summary& summary);

  // The points of all pixels.
  Curve finish();

  // Steps and times of a chunk; none if it is damaged, which is reported. Shared: the newest two
  // are kept, and the caller may need it for longer.
  std::shared_ptr<const Segment::Axes> axes_of(const Piece& piece);

 private:
  void go_to(std::int64_t step);
  void take(const Summary& summary);
  void flush();
  bool resolve(Candidate& candidate);

  const StepRange range_;
  const std::int64_t pixels_;
  const std::span<const std::int64_t> borders_;
  const Unreadable& unreadable_;
  Summary pixel_;           // count 0: empty
  std::int64_t pixel_end_;  // the last step of the current pixel
  Curve curve_;
  struct KnownAxes {
    const Piece* piece = nullptr;
    std::shared_ptr<const Segment::Axes> axes;
  };
  std::array<KnownAxes, 2> known_;  // the newest first
};

}  // namespace lockstep::insight::series

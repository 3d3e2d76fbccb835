#include "platform/insight/series/detail/pixels.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace lockstep::insight::series {
namespace {

__extension__ using Wide = unsigned __int128;

// A range may have 2^64 steps.
std::uint64_t steps_before(std::int64_t step, const StepRange& range) {
  return static_cast<std::uint64_t>(step) - static_cast<std::uint64_t>(range.first);
}

}  // namespace

Pixels::Pixels(const StepRange& range, std::int64_t pixels, std::span<const std::int64_t> borders,
               const Unreadable& unreadable)
    : range_(range),
      pixels_(pixels),
      borders_(borders),
      unreadable_(unreadable),
      pixel_end_(range.first) {
  LS_CHECK(pixels >= 1 && range.first <= range.last);
}

std::int64_t Pixels::pixel_of(std::int64_t step) const {
  if (!borders_.empty()) return std::ranges::upper_bound(borders_, step) - borders_.begin();
  const Wide width = Wide{steps_before(range_.last, range_)} + 1;
  return static_cast<std::int64_t>(Wide{steps_before(step, range_)} * Wide(pixels_) / width);
}

// Begins another pixel, unless the step is in the current one.
void Pixels::go_to(std::int64_t step) {
  if (pixel_.count > 0 && step <= pixel_end_) return;
  flush();
  if (!borders_.empty()) {
    const auto next = std::ranges::upper_bound(borders_, step);
    pixel_end_ = next == borders_.end() ? range_.last : *next - 1;
    return;
  }
  const Wide width = Wide{steps_before(range_.last, range_)} + 1;
  const Wide next = Wide(pixel_of(step)) + 1;
  // The first step of the next pixel is at the least distance d with d * pixels >= next * width.
  const Wide distance = (next * width + Wide(pixels_) - 1) / Wide(pixels_);
  pixel_end_ = static_cast<std::int64_t>(static_cast<std::uint64_t>(range_.first) +
                                         static_cast<std::uint64_t>(distance - 1));
}

void Pixels::add(const SeriesPoint& point) {
  go_to(point.step);
  const Candidate candidate{.value = point.value, .point = point};
  if (pixel_.count++ == 0) pixel_.first = candidate;
  pixel_.last = candidate;
  if (std::isnan(point.value)) {
    if (!pixel_.nan) pixel_.nan = candidate;
    return;
  }
  if (!pixel_.min || point.value < pixel_.min->value) pixel_.min = candidate;
  if (!pixel_.max || point.value > pixel_.max->value) pixel_.max = candidate;
}

void Pixels::add(const Summary& summary) {
  go_to(summary.step);
  if (pixel_.count == 0) pixel_.first = summary.first;
  pixel_.count += summary.count;
  pixel_.last = summary.last;
  if (summary.min && (!pixel_.min || summary.min->value < pixel_.min->value))
    pixel_.min = summary.min;
  if (summary.max && (!pixel_.max || summary.max->value > pixel_.max->value))
    pixel_.max = summary.max;
  if (!pixel_.nan) pixel_.nan = summary.nan;
}

std::shared_ptr<const Segment::Axes> Pixels::axes_of(const Piece& piece) {
  if (known_[0].piece != &piece) std::swap(known_[0], known_[1]);
  if (known_[0].piece == &piece) return known_[0].axes;
  auto axes = piece.segment->axes(piece.entry);
  if (!axes) unreadable_(axes.error());
  known_[0] = {&piece, nullptr};
  if (axes) known_[0].axes = std::make_shared<const Segment::Axes>(std::move(axes).value());
  return known_[0].axes;
}

// False if its chunk is damaged.
bool Pixels::resolve(Candidate& candidate) {
  if (candidate.piece == nullptr) return true;
  const auto axes = axes_of(*candidate.piece);
  if (!axes) return false;
  const auto step = axes->steps.at(candidate.index);
  const auto time = axes->times.at(candidate.index);
  if (!step || !time) {
    unreadable_(step ? time.error() : step.error());
    return false;
  }
  candidate.point = {*step, Time(Duration(*time)), candidate.value};
  return true;
}

void Pixels::flush() {
  if (pixel_.count == 0) return;
  curve_.total += pixel_.count;
  std::array<Candidate, 5> kept = {pixel_.first, pixel_.last};
  std::size_t size = 2;
  for (const auto& candidate : {pixel_.min, pixel_.max, pixel_.nan})
    if (candidate) kept[size++] = *candidate;
  // By piece, so that the columns of each are parsed once.
  const auto begin = curve_.points.size();
  std::stable_sort(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(size),
                   [](const Candidate& a, const Candidate& b) { return a.piece < b.piece; });
  for (std::size_t i = 0; i < size; ++i)
    if (resolve(kept[i])) curve_.points.push_back(kept[i].point);
  const auto first = curve_.points.begin() + static_cast<std::ptrdiff_t>(begin);
  std::sort(first, curve_.points.end(),
            [](const SeriesPoint& a, const SeriesPoint& b) { return a.step < b.step; });
  curve_.points.erase(
      std::unique(first, curve_.points.end(),
                  [](const SeriesPoint& a, const SeriesPoint& b) { return a.step == b.step; }),
      curve_.points.end());
  pixel_ = {};
}

Curve Pixels::finish() {
  flush();
  curve_.downsampled = std::cmp_greater(curve_.total, curve_.points.size());
  return std::move(curve_);
}

}  // namespace lockstep::insight::series

// Curves of a run over steps, time or another metric.
//
// The series store makes pixels of steps. A curve over another x takes three queries: a coarse
// curve of x tells which steps begin pixels of equal width on x; the curve of the metric has these
// pixels; the x of its points are then read exactly. Where x goes back, no such steps exist: the
// curve has many pixels of steps, and its points are put in the order of x.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "platform/insight/detail/run_counters.h"
#include "platform/insight/insight.h"
#include "platform/insight/series/series_store.h"

namespace lockstep::insight {
namespace {

using Int = std::int64_t;

// Samples of x for each pixel of the answer: a border is exact to a fraction of a pixel of steps.
constexpr Int kSamplesPerPixel = 4;
constexpr Int kSamplesMax = 8000;
// Pixels of steps of a curve whose x goes back.
constexpr Int kUnorderedPixels = 20'000;

struct Sample {
  Int step = 0;
  double x = 0;
};

struct Place {
  double x = 0;
  Int step = 0;
  double value = 0;
};

double seconds_of(Time time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

// A step of an x that counts steps; beyond the range of steps its end.
Int step_at(double x) {
  constexpr double kEnd = 9.2e18;
  return static_cast<Int>(std::clamp(x, -kEnd, kEnd));
}

// The range of steps whose x may be within the bounds, from the samples around it.
StepRange steps_between(const std::vector<Sample>& samples, double from, double to) {
  StepRange range;
  const auto first = std::ranges::lower_bound(samples, from, {}, &Sample::x);
  if (first != samples.begin()) range.first = std::prev(first)->step;
  const auto last = std::ranges::upper_bound(samples, to, {}, &Sample::x);
  if (last != samples.end()) range.last = last->step;
  return range;
}

// The first steps of pixels of equal width on x, between ascending samples by interpolation. Steps
// outside of the bounds have pixels of their own.
std::vector<Int> borders_of(const std::vector<Sample>& samples, double from, double to,
                            Int pixels) {
  std::vector<Int> borders;
  auto after = samples.begin();
  for (Int pixel = 0; pixel <= pixels; ++pixel) {
    const double x =
        from + (to - from) * (static_cast<double>(pixel) / static_cast<double>(pixels));
    while (after != samples.end() && after->x < x) ++after;
    if (after == samples.end()) break;
    Int border = after->step;  // steps before the first sample have no x
    if (after != samples.begin()) {
      const Sample& before = *std::prev(after);
      const double share = (x - before.x) / (after->x - before.x);
      const double steps = static_cast<double>(after->step) - static_cast<double>(before.step);
      border = std::min(before.step + step_at(std::ceil(share * steps)), after->step);
    }
    if (borders.empty() || borders.back() < border) borders.push_back(border);
  }
  return borders;
}

// Keeps the first, last, least and greatest point and the first NaN of each pixel.
std::vector<Place> thinned(const std::vector<Place>& places, Int pixels) {
  if (places.empty()) return {};
  const double first = places.front().x, width = places.back().x - first;
  const auto pixel_of = [&](const Place& place) {
    return width > 0
               ? std::min(pixels - 1,
                          static_cast<Int>((place.x - first) / width * static_cast<double>(pixels)))
               : 0;
  };
  std::vector<Place> kept;
  for (std::size_t begin = 0; begin < places.size();) {
    std::size_t end = begin, least = begin, greatest = begin;
    std::optional<std::size_t> nan;
    for (const Int pixel = pixel_of(places[begin]);
         end < places.size() && pixel_of(places[end]) == pixel; ++end) {
      const double value = places[end].value;
      if (std::isnan(value) && !nan) nan = end;
      if (value < places[least].value || std::isnan(places[least].value)) least = end;
      if (value > places[greatest].value || std::isnan(places[greatest].value)) greatest = end;
    }
    std::array<std::size_t, 5> some = {begin, end - 1, least, greatest, nan.value_or(begin)};
    std::ranges::sort(some);
    const auto repeated = std::ranges::unique(some);
    for (auto each = some.begin(); each != repeated.begin(); ++each) kept.push_back(places[*each]);
    begin = end;
  }
  return kept;
}

class CurveDrawer {
 public:
  CurveDrawer(SeriesStore& store, model::RunId run, const RunCurveQuery& query)
      : store_(store),
        run_(std::move(run)),
        query_(query),
        from_(query.from.value_or(-std::numeric_limits<double>::infinity())),
        to_(query.to.value_or(std::numeric_limits<double>::infinity())) {}

  Result<api::RunCurve> draw() {
    api::RunCurve answer{.metric = query_.metric};
    const auto key = TRY(key_of(query_.metric));
    if (!key) return answer;
    key_ = *key;
    answer.aggregate = key_.part == RunPart::all_ranks;
    if (query_.x_metric) {
      x_key_ = TRY(key_of(*query_.x_metric));
      if (!x_key_) return answer;
    }
    CurveQuery wanted{.run = run_, .series = key_, .epoch = {}, .range = {}};
    wanted.pixels = query_.pixels;
    if (!TRY(plan(wanted))) return answer;
    TRY(fill(wanted, answer));
    return answer;
  }

 private:
  bool is_over_steps() const { return !query_.x_metric && query_.x == api::CurveAxis::step; }

  // The series of the given rank, of the only rank, or of the mean over ranks; none: there is none.
  Result<std::optional<SeriesKey>> key_of(const std::string& metric) {
    const auto ranks = TRY(store_.ranks_of(run_, metric));
    if (!ranks || !ranks->first) return std::optional<SeriesKey>();
    const bool has_own = query_.rank && (ranks->several || metric == query_.metric);
    if (has_own)
      return std::optional(
          SeriesKey{metric, RunPart::rank, static_cast<std::int32_t>(*query_.rank)});
    if (!ranks->several) return std::optional(SeriesKey{metric, RunPart::rank, *ranks->first});
    return std::optional(
        SeriesKey{metric, RunPart::all_ranks, static_cast<std::int32_t>(Statistic::mean)});
  }

  // The steps and pixels of the curve; false: it has no point.
  Result<bool> plan(CurveQuery& wanted) {
    if (is_over_steps()) {
      if (query_.from) wanted.range.first = step_at(std::ceil(*query_.from));
      if (query_.to) wanted.range.last = step_at(std::floor(*query_.to));
      return wanted.range.first <= wanted.range.last;
    }
    std::vector<Sample> samples = TRY(samples_in({}));
    if (samples.empty()) return false;
    if (query_.x == api::CurveAxis::relative && !query_.x_metric) {
      origin_ = samples.front().x;
      for (Sample& sample : samples) sample.x -= origin_;
    }
    ascends_ = std::ranges::is_sorted(samples, {}, &Sample::x);
    if (!ascends_) {
      wanted.pixels = std::max(kUnorderedPixels, wanted.pixels);
      return true;
    }
    if (query_.from || query_.to) {
      wanted.range = steps_between(samples, from_, to_);
      if (wanted.range.first > wanted.range.last) return false;
      samples = TRY(samples_in(wanted.range));
      if (samples.empty()) return false;
      for (Sample& sample : samples) sample.x -= origin_;
    }
    wanted.borders = borders_of(samples, std::max(from_, samples.front().x),
                                std::min(to_, samples.back().x), wanted.pixels);
    if (wanted.borders.empty()) wanted.pixels = 1;
    return true;
  }

  Result<std::vector<Sample>> samples_in(const StepRange& range) {
    const Curve curve =
        TRY(store_.curve({.run = run_,
                          .series = x_key_.value_or(key_),
                          .epoch = {},
                          .range = range,
                          .pixels = std::min(kSamplesMax, query_.pixels * kSamplesPerPixel)}));
    std::vector<Sample> samples;
    for (const SeriesPoint& point : curve.points)
      if (const double x = x_key_ ? point.value : seconds_of(point.time); std::isfinite(x))
        samples.push_back({point.step, x});
    return samples;
  }

  Result<void> fill(const CurveQuery& wanted, api::RunCurve& answer) {
    const bool has_band = query_.band && key_.part == RunPart::all_ranks;
    RankCurves curves;
    if (has_band)
      curves = TRY(store_.rank_curves(wanted));
    else
      curves.mean = TRY(store_.curve(wanted));
    const std::vector<Place> places = TRY(placed(curves.mean));
    for (const Place& place : places) {
      answer.x.push_back(place.x);
      answer.values.push_back(place.value);
      if (!is_over_steps()) answer.steps.push_back(place.step);
    }
    answer.total = curves.mean.total;
    answer.downsampled = curves.mean.total > std::ssize(places);
    TRY(fill(curves.min, answer.low));
    return fill(curves.max, answer.high);
  }

  Result<void> fill(const Curve& curve, api::CurveValues& values) {
    for (const Place& place : TRY(placed(curve))) {
      values.x.push_back(place.x);
      values.values.push_back(place.value);
    }
    return {};
  }

  // By x; points without one are left out, and those outside of the bounds.
  Result<std::vector<Place>> placed(const Curve& curve) {
    std::vector<Place> places;
    const auto add = [&](const SeriesPoint& point, double x) {
      if (std::isfinite(x) && x >= from_ && x <= to_)
        places.push_back({x, point.step, point.value});
    };
    if (x_key_) {
      ValuesQuery query{.run = run_, .series = *x_key_, .epoch = {}, .steps = {}};
      for (const SeriesPoint& point : curve.points) query.steps.push_back(point.step);
      const auto values = TRY(store_.values(query));
      for (std::size_t i = 0; i < values.size(); ++i)
        if (values[i]) add(curve.points[i], *values[i]);
    } else {
      for (const SeriesPoint& point : curve.points)
        add(point,
            is_over_steps() ? static_cast<double>(point.step) : seconds_of(point.time) - origin_);
    }
    std::ranges::stable_sort(places, {}, &Place::x);
    return ascends_ ? places : thinned(places, query_.pixels);
  }

  SeriesStore& store_;
  const model::RunId run_;
  const RunCurveQuery& query_;
  const double from_, to_;
  SeriesKey key_;
  std::optional<SeriesKey> x_key_;
  double origin_ = 0;
  bool ascends_ = true;  // x with the steps
};

}  // namespace

Result<api::RunCurve> Insight::curve(const model::RunId& run, const RunCurveQuery& query) {
  const auto counters = TRY(find_counters(database_, run));
  if (!counters) return api::RunCurve{.metric = query.metric};
  return CurveDrawer(series_, series_run(*counters, run), query).draw();
}

}  // namespace lockstep::insight

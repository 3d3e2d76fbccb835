#include "comm/cost/fit.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"

namespace lockstep::comm {
namespace {

// Sums over the sizes, each weighted by 1 / seconds^2.
struct Sums {
  double weight = 0, bytes = 0, seconds = 0, bytes_bytes = 0, bytes_seconds = 0;

  void add(double x, double t) {
    const double w = 1 / (t * t);
    weight += w;
    bytes += w * x;
    seconds += w * t;
    bytes_bytes += w * x * x;
    bytes_seconds += w * x * t;
  }
};

}  // namespace

double median(std::vector<double> values) {
  LS_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

LinearFit fit_line(std::span<const Timings> sizes) {
  constexpr double kLeastSeconds = 1e-12;  // a clock may return the same time twice
  Sums sums;
  for (const Timings& size : sizes)
    sums.add(size.bytes, std::max(median(size.seconds), kLeastSeconds));
  const double determinant = sums.weight * sums.bytes_bytes - sums.bytes * sums.bytes;
  const double mean = sums.seconds / sums.weight;
  // There is only one size; the determinant is then only rounding error.
  if (determinant <= 1e-12 * sums.weight * sums.bytes_bytes) return {mean, 0};
  const LinearFit line{
      (sums.seconds * sums.bytes_bytes - sums.bytes * sums.bytes_seconds) / determinant,
      (sums.weight * sums.bytes_seconds - sums.bytes * sums.seconds) / determinant};
  if (line.per_byte < 0) return {mean, 0};
  if (line.intercept < 0) return {0, sums.bytes_seconds / sums.bytes_bytes};
  return line;
}

double latency_of(const LinearFit& line, const Timings& smallest) {
  const double lone = median(smallest.seconds);
  return line.intercept > 0 ? std::min(line.intercept, lone) : lone;
}

}  // namespace lockstep::comm

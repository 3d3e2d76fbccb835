// fit_line: latency and bandwidth from timed messages of several sizes.
#pragma once

#include <span>
#include <vector>

namespace lockstep::comm {

// The durations of several messages of one size.
struct Timings {
  double bytes = 0;
  std::vector<double> seconds;  // at least one
};

struct LinearFit {
  double intercept = 0;  // seconds
  double per_byte = 0;   // seconds
  bool operator==(const LinearFit&) const = default;
};

double median(std::vector<double> values);  // at least one

// Fits t = intercept + bytes * per_byte to the median of each size, by least squares of the
// relative errors. With absolute errors the largest message alone would determine the latency.
// Medians, because a busy machine delays some messages and speeds up none. Neither constant is
// negative; with one size the latency is all.
LinearFit fit_line(std::span<const Timings> sizes);

// The time of a message with hardly any bytes. A single small message measures it better than a
// line that large messages bend: up, or down to zero, as on a busy machine.
double latency_of(const LinearFit& line, const Timings& smallest);

}  // namespace lockstep::comm

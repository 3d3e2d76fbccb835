// fit_line: latency and bandwidth from timed messages of several sizes.
#pragma once

#include <span>
#include <vector>

namespace lockstep {

// How long each of several messages of one size took.
struct Timings {
  double bytes = 0;
  std::vector<double> seconds;  // at least one
};

struct Line {
  double at_zero = 0;   // seconds
  double per_byte = 0;  // seconds
  bool operator==(const Line&) const = default;
};

double median(std::vector<double> values);  // at least one

// The line t = at_zero + bytes * per_byte through the median of each size, by least squares of the
// relative errors: else the largest message alone would decide on the latency. Medians, because a
// busy machine makes some messages late and none early. Neither constant is negative; of one size
// alone the latency is all.
Line fit_line(std::span<const Timings> sizes);

// What a message takes that has hardly any bytes. A lone small one says more of that than a line
// that large ones bend: up, or down to zero, as on a busy machine.
double latency_of(const Line& line, const Timings& smallest);

}  // namespace lockstep

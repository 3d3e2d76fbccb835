// What a replay decided, to be compared and kept: exact sums, a digest, the jobs as CSV and the
// devices' use as a picture.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/replay/replay.h"

namespace lockstep::sim {

// Of two schedules with the same digest every job starts and ends at the same seconds.
struct ScheduleSums {
  std::int64_t starts_s = 0;  // of all first starts, each since the first submission
  std::int64_t ends_s = 0;
  // The first 12 hex digits of SHA-256 over "s0,s1,...;e0,e1,...", in the trace's order.
  std::string sha;
};

ScheduleSums sums_of(const Replayed& replayed);

// A row a job: line in the trace, submitted, duration, devices, started, ended, moves. It can be
// read again as a trace, which has then the same jobs.
std::string schedule_csv(const JobTrace& trace, const Replayed& replayed);

// SVG: the share of devices that are held, and of those that idle while somebody waits, over days;
// each point the mean of about a thousandth of the time.
std::string usage_svg(const Replayed& replayed, int devices, std::string_view title);

}  // namespace lockstep::sim

// The decisions of a replay, for comparison and storage: exact sums, a digest, the jobs as CSV and
// the use of the devices as an SVG picture.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/replay/replay.h"

namespace lockstep::sim {

// In two schedules with the same digest every job starts and ends at the same seconds.
struct ScheduleSums {
  std::int64_t starts_s = 0;  // of all first starts, each since the first submission
  std::int64_t ends_s = 0;
  // The first 12 hex digits of SHA-256 over "s0,s1,...;e0,e1,...", in the trace's order.
  std::string sha;
};

ScheduleSums sums_of(const ReplayResult& replayed);

// A row a job: line in the trace, submitted, duration, devices, started, ended, moves. It is a
// valid trace with the same jobs.
std::string schedule_csv(const JobTrace& trace, const ReplayResult& replayed);

// SVG over days: the share of allocated devices, and the share of idle devices while a job waits.
// Each point is the mean of about a thousandth of the time.
std::string usage_svg(const ReplayResult& replayed, int devices, std::string_view title);

}  // namespace lockstep::sim

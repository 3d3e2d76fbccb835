// JobTrace: the jobs that a cluster was given, read from a CSV file, to be replayed under another
// policy. Which columns hold what, how times are written and whether rows must be in order is
// declared in a table (job_trace.cc): a further form is a line of it.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep::sim {

using Seconds = std::chrono::seconds;

struct Job {
  Seconds submitted{};  // since the first of the trace
  Seconds duration{};   // that it ran; at least 1 s, fractions cut off
  int devices = 1;
  int line = 0;  // of the file
};

struct JobTrace {
  std::string name;       // of the file, for messages
  std::vector<Job> jobs;  // by (submitted, row in the file); at least one
  // From the first submission to the last.
  Seconds window() const { return jobs.back().submitted; }
};

// The form is that whose columns the header has. Refused, with file, line, column, value and
// remedy: a header that lacks columns, what is no time or number, durations under a second or over
// ten years, no devices or over a million, rows out of order in a form that is declared sorted.
Result<JobTrace> parse_job_trace(std::string_view words, std::string_view name);

// The jobs that were submitted in one half of the window. Times count from the first of these jobs.
// A job that was submitted exactly in the middle belongs to the second half. A half without jobs is
// refused.
enum class Half { first, second };
Result<JobTrace> half_of(const JobTrace& trace, Half half);

// The forms, a line each, for help: their columns, in which order and how times are written.
std::vector<std::string> trace_formats();

}  // namespace lockstep::sim

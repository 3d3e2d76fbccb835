// Metrics of a policy for the waiting jobs and the devices, as defined in the literature.
//
//   wait       from submission to the first start
//   stay       from submission to the end (job completion time)
//   slowdown   mean of max(1, stay / max(10 min, duration)) (bounded slowdown)
//   percentile p of n values: the one at floor(n x p / 100) of them in order, from 0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/replay/replay.h"
#include "text/record.h"

namespace lockstep::sim {

// Metrics of the jobs that were submitted in a part of the trace's window, and of the devices in
// that part. A value that is not defined (no such job, no time) is null.
struct PartMetrics {
  std::string part;
  std::int64_t jobs = 0;
  std::optional<double> mean_wait_s;
  std::optional<std::int64_t> median_wait_s, p95_wait_s, p99_wait_s;
  std::optional<double> mean_stay_s;
  std::optional<std::int64_t> median_stay_s, p95_stay_s;
  std::optional<std::int64_t> debug_median_wait_s;
  std::optional<double> host_wait_s;
  std::optional<double> gang_wait_s;
  std::optional<std::int64_t> gang_p95_wait_s;
  std::optional<double> slowdown;
  std::optional<double> utilization;
  std::optional<double> idle_waiting;
  std::optional<double> scattered;

  static constexpr auto fields() {
    return record<PartMetrics>(
        field("part", &PartMetrics::part, "whole, first or second half of the window"),
        field("jobs", &PartMetrics::jobs, "submitted in it"),
        field("mean_wait_s", &PartMetrics::mean_wait_s, "from submission to first start"),
        field("median_wait_s", &PartMetrics::median_wait_s, "the same"),
        field("p95_wait_s", &PartMetrics::p95_wait_s, "the same"),
        field("p99_wait_s", &PartMetrics::p99_wait_s, "the same"),
        field("mean_stay_s", &PartMetrics::mean_stay_s, "from submission to end"),
        field("median_stay_s", &PartMetrics::median_stay_s, "the same"),
        field("p95_stay_s", &PartMetrics::p95_stay_s, "the same"),
        field("debug_median_wait_s", &PartMetrics::debug_median_wait_s,
              "of jobs of up to one host and one hour"),
        field("host_wait_s", &PartMetrics::host_wait_s, "mean, of jobs that take a whole host"),
        field("gang_wait_s", &PartMetrics::gang_wait_s, "mean, of jobs of two hosts or more"),
        field("gang_p95_wait_s", &PartMetrics::gang_p95_wait_s, "of jobs of two hosts or more"),
        field("slowdown", &PartMetrics::slowdown, "mean of stay over duration, at least 1"),
        field("utilization", &PartMetrics::utilization, "share of the devices' time that is held"),
        field("idle_waiting", &PartMetrics::idle_waiting,
              "share of the devices' time that is idle while a job waits"),
        field("scattered", &PartMetrics::scattered,
              "share of the time in which the head waits though enough devices are free in all"));
  }
};

// Whole, first half, second half of the window, from the first submission to the last. A job
// belongs to the half in which it was submitted, whenever it starts. Devices count in the window
// only, since no jobs come after it.
std::vector<PartMetrics> metrics_of(const JobTrace& trace, const ReplayResult& replayed,
                                    int devices, int devices_on_host);

}  // namespace lockstep::sim

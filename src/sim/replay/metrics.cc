#include "sim/replay/metrics.h"

#include <algorithm>
#include <numeric>

namespace lockstep::sim {
namespace {

constexpr Seconds kDebugLongest{3'600};
constexpr double kShortest = 600;  // seconds: shorter jobs count as that long in the slowdown

// A part of the window: [from, to).
struct Part {
  const char* name;
  Seconds from, to;
  bool last;  // what is submitted at `to` belongs to it, too
  bool has(Seconds submitted) const {
    return submitted >= from && (submitted < to || (last && submitted == to));
  }
};

std::vector<Part> parts_of(const JobTrace& trace) {
  const Seconds window = trace.window(), middle = window / 2;
  return {{"whole", Seconds(0), window, true},
          {"first", Seconds(0), middle, false},
          {"second", middle, window, true}};
}

using Values = std::vector<std::int64_t>;  // seconds

std::optional<double> mean(const Values& values) {
  if (values.empty()) return std::nullopt;
  const auto sum = std::accumulate(values.begin(), values.end(), std::int64_t{0});
  return static_cast<double>(sum) / static_cast<double>(values.size());
}

std::optional<std::int64_t> percentile(Values& values, std::size_t percent) {
  if (values.empty()) return std::nullopt;
  const std::size_t index = values.size() * percent / 100;
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(index));
  return values[index];
}

std::optional<double> ratio(double above, double below) {
  if (below <= 0) return std::nullopt;
  return above / below;
}

void add_jobs(PartMetrics& metrics, const Part& part, const JobTrace& trace,
              const ReplayResult& replayed, int on_host) {
  Values waits, stays, debug_waits, host_waits, gang_waits;
  double slowdowns = 0;
  for (std::size_t i = 0; i < trace.jobs.size(); ++i) {
    const Job& job = trace.jobs[i];
    if (!part.has(job.submitted)) continue;
    const std::int64_t wait = (replayed.jobs[i].started - job.submitted).count();
    const std::int64_t stay = (replayed.jobs[i].ended - job.submitted).count();
    waits.push_back(wait);
    stays.push_back(stay);
    if (job.devices <= on_host && job.duration <= kDebugLongest) debug_waits.push_back(wait);
    if (job.devices == on_host) host_waits.push_back(wait);
    if (job.devices >= 2 * on_host) gang_waits.push_back(wait);
    const double length = std::max(kShortest, static_cast<double>(job.duration.count()));
    slowdowns += std::max(1.0, static_cast<double>(stay) / length);
  }
  metrics.jobs = std::ssize(waits);
  metrics.mean_wait_s = mean(waits);
  metrics.median_wait_s = percentile(waits, 50);
  metrics.p95_wait_s = percentile(waits, 95);
  metrics.p99_wait_s = percentile(waits, 99);
  metrics.mean_stay_s = mean(stays);
  metrics.median_stay_s = percentile(stays, 50);
  metrics.p95_stay_s = percentile(stays, 95);
  metrics.debug_median_wait_s = percentile(debug_waits, 50);
  metrics.host_wait_s = mean(host_waits);
  metrics.gang_wait_s = mean(gang_waits);
  metrics.gang_p95_wait_s = percentile(gang_waits, 95);
  metrics.slowdown = ratio(slowdowns, static_cast<double>(waits.size()));
}

// Calls visit(moment, seconds) with the part of each moment that lies in [from, to).
template <class Visit>
void for_each_moment(const std::vector<UsageSample>& moments, Seconds from, Seconds to,
                     Visit visit) {
  for (std::size_t i = 0; i + 1 < moments.size(); ++i) {
    const Seconds length = std::min(moments[i + 1].at, to) - std::max(moments[i].at, from);
    if (length > Seconds(0)) visit(moments[i], static_cast<double>(length.count()));
  }
}

void add_devices(PartMetrics& metrics, const Part& part, const ReplayResult& replayed,
                 int devices) {
  double held = 0, scattered = 0, idle = 0, waited = 0;
  for_each_moment(replayed.moments, part.from, part.to,
                  [&](const UsageSample& moment, double seconds) {
                    held += moment.allocated_devices * seconds;
                    if (moment.head_fragmented) scattered += seconds;
                    if (!moment.any_job_waits) return;
                    idle += (devices - moment.allocated_devices) * seconds;
                    waited += seconds;
                  });
  const auto span = static_cast<double>((part.to - part.from).count());
  metrics.utilization = ratio(held, devices * span);
  metrics.scattered = ratio(scattered, span);
  metrics.idle_waiting = ratio(idle, devices * waited);
}

}  // namespace

std::vector<PartMetrics> metrics_of(const JobTrace& trace, const ReplayResult& replayed,
                                    int devices, int devices_on_host) {
  std::vector<PartMetrics> all;
  for (const Part& part : parts_of(trace)) {
    PartMetrics& metrics = all.emplace_back();
    metrics.part = part.name;
    add_jobs(metrics, part, trace, replayed, devices_on_host);
    add_devices(metrics, part, replayed, devices);
  }
  return all;
}

}  // namespace lockstep::sim

#include "sim/replay/schedule.h"

#include <algorithm>

#include "base/format.h"
#include "net/crypto.h"
#include "text/display/svg_chart.h"

namespace lockstep::sim {
namespace {

constexpr std::size_t kDigits = 12;
constexpr std::int64_t kPoints = 1'000;
constexpr double kDay = 86'400;

std::string listed(const ReplayResult& replayed, Seconds JobOutcome::* when) {
  std::string words;
  for (const JobOutcome& job : replayed.jobs) {
    if (!words.empty()) words += ',';
    words += format("{}", (job.*when).count());
  }
  return words;
}

// A share of the devices over time, as means over equal slices of it.
class UsageSeries {
 public:
  UsageSeries(std::string name, Seconds end)
      : name_(std::move(name)), end_(end), width_(end.count() / kPoints + 1) {
    sums_.resize(static_cast<std::size_t>((end + width_ - Seconds(1)) / width_));
  }

  void add(Seconds from, Seconds to, double share) {
    while (from < to) {
      const auto slice = from / width_;
      const Seconds until = std::min(to, width_ * (slice + 1));
      sums_[static_cast<std::size_t>(slice)] += share * static_cast<double>((until - from).count());
      from = until;
    }
  }

  PlotSeries series() const {
    PlotSeries series{.name = name_};
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      const Seconds from = width_ * static_cast<std::int64_t>(i);
      const auto length = static_cast<double>(std::min(width_, end_ - from).count());
      series.points.push_back(
          {(static_cast<double>(from.count()) + length / 2) / kDay, sums_[i] / length});
    }
    return series;
  }

 private:
  const std::string name_;
  const Seconds end_, width_;
  std::vector<double> sums_;
};

}  // namespace

ScheduleSums sums_of(const ReplayResult& replayed) {
  ScheduleSums sums;
  for (const JobOutcome& job : replayed.jobs) {
    sums.starts_s += job.started.count();
    sums.ends_s += job.ended.count();
  }
  sums.sha = net::sha256_hex(listed(replayed, &JobOutcome::started) + ";" +
                             listed(replayed, &JobOutcome::ended))
                 .substr(0, kDigits);
  return sums;
}

std::string schedule_csv(const JobTrace& trace, const ReplayResult& replayed) {
  std::string csv = "line,submitted,duration,devices,started,ended,moves\n";
  for (std::size_t i = 0; i < trace.jobs.size(); ++i) {
    const Job& job = trace.jobs[i];
    const JobOutcome& outcome = replayed.jobs[i];
    csv += format("{},{},{},{},{},{},{}\n", job.line, job.submitted.count(), job.duration.count(),
                  job.devices, outcome.started.count(), outcome.ended.count(), outcome.moves);
  }
  return csv;
}

std::string usage_svg(const ReplayResult& replayed, int devices, std::string_view title) {
  const auto& moments = replayed.moments;
  UsageSeries held("held", moments.back().at);
  UsageSeries idle("idle while a job waits", moments.back().at);
  for (std::size_t i = 0; i + 1 < moments.size(); ++i) {
    const double share = 100.0 * moments[i].allocated_devices / devices;
    held.add(moments[i].at, moments[i + 1].at, share);
    if (moments[i].any_job_waits) idle.add(moments[i].at, moments[i + 1].at, 100 - share);
  }
  return svg_chart({held.series(), idle.series()},
                   {.title = title, .x_label = "days", .y_label = "% of the devices"});
}

}  // namespace lockstep::sim

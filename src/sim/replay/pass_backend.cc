#include "sim/replay/pass_backend.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/format.h"
#include "platform/core/model/run_class.h"
#include "platform/core/sched/pass.h"

namespace lockstep::sim {
namespace {

constexpr auto kProject = "trace";
// How often a job may be moved in its life.
constexpr int kMovesMost = 3;
// Who is small enough, and may run no longer, is a debug run.
constexpr Seconds kDebugMost{3'600};

// Runs count from 1, jobs from 0.
RunId run_of(JobId job) { return {kProject, job.value() + 1}; }
JobId job_of(const RunId& run) { return JobId(run.number - 1); }

Host host_with(int devices, int number) {
  Host host;
  host.id = format("host-{}", number);
  Island& island = host.islands.emplace_back();
  for (int i = 0; i < devices; ++i)
    island.devices.push_back({DeviceKind::gpu, i, std::nullopt, false});
  return host;
}

}  // namespace

Map map_of(const ReplayCluster& cluster) {
  Map map;
  for (int number = 0; number < cluster.hosts; ++number) {
    if (number % cluster.pod == 0) {
      Pod& pod = map.pods.emplace_back();
      pod.name = format("pod-{}", number / cluster.pod);
      pod.leaves.emplace_back();
    }
    map.pods.back().leaves.back().hosts.push_back(host_with(cluster.devices, number));
  }
  return map;
}

std::vector<Want> wants_of(const JobTrace& trace, std::span<const Seconds> limits, int on_host) {
  std::vector<Want> wants;
  for (std::size_t i = 0; i < trace.jobs.size(); ++i) {
    const Job& job = trace.jobs[i];
    Want want;
    want.run = run_of(JobId(static_cast<std::int64_t>(i)));
    want.nodes = std::max(1, job.devices / on_host);
    want.devices = std::min(job.devices, on_host);
    want.remainder = job.devices > on_host ? job.devices % on_host : 0;
    want.arrived = Time(job.submitted);
    want.limit = limits[i];
    want.moves_left = kMovesMost;
    want.may_pause = true;
    if (job.devices <= on_host && limits[i] <= kDebugMost) want.run_class = RunClass::debug;
    wants.push_back(std::move(want));
  }
  return wants;
}

Result<void> check_all_fit(const JobTrace& trace, std::span<const Want> wants, const Map& map) {
  std::set<int> fitting;  // sizes that were looked at; there are few
  for (std::size_t i = 0; i < wants.size(); ++i) {
    const Job& job = trace.jobs[i];
    if (!fitting.insert(job.devices).second || check_fits(map, wants[i])) continue;
    return Error{Code::invalid,
                 format("{}:{}: {} devices are more than the cluster can hold together; take a "
                        "larger one by --hosts, or drop the row",
                        trace.name, job.line, job.devices)};
  }
  return {};
}

Want& PassBackend::want(const RunId& run) {
  return wants_[static_cast<std::size_t>(job_of(run).value())];
}

Time& PassBackend::since(const RunId& run) {
  return since_[static_cast<std::size_t>(job_of(run).value())];
}

// What it has done since its last checkpoint is to be done again, and does not count as used.
void PassBackend::interrupt(const RunId& run, Time now) {
  Want& left = want(run);
  const Duration ran = now - since(run);
  const Duration kept = ran - ran % policy_.checkpoint_interval - policy_.restart_time;
  left.limit -= kept;
  left.used += kept;
  since(run) = now;
}

Result<Decision> PassBackend::decide(Seconds now, std::span<const JobId> ended,
                                     std::span<const JobId> arrived) {
  for (const JobId job : ended) scheduler_.release(run_of(job));
  for (const JobId job : arrived) scheduler_.submit(want(run_of(job)));
  Decision decision;
  // Who was evicted may have another place at once.
  while (!carry_out(scheduler_.decide(Time(now)), Time(now), decision)) {
  }
  if (const auto head = scheduler_.head()) decision.head = job_of(*head);
  return decision;
}

// Whether nobody was evicted.
bool PassBackend::carry_out(const Plan& plan, Time now, Decision& decision) {
  for (const RunId& run : plan.evictions) {
    decision.evicted.push_back(job_of(run));
    interrupt(run, now);
    scheduler_.submit(want(run));
  }
  for (const Move& move : plan.moves) {
    decision.moved.push_back(job_of(move.run));
    --want(move.run).moves_left;
    interrupt(move.run, now);
  }
  for (const Placement& start : plan.placements) {
    decision.started.push_back(job_of(start.run));
    since(start.run) = now;
  }
  return plan.evictions.empty();
}

}  // namespace lockstep::sim

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
// The maximum number of moves of a job.
constexpr int kMovesMax = 3;
// A job that is small enough and has a limit no longer than this is a debug run.
constexpr Seconds kDebugMax{3'600};

// Runs count from 1, jobs from 0.
model::RunId run_of(JobId job) { return {kProject, job.value() + 1}; }
JobId job_of(const model::RunId& run) { return JobId(run.number - 1); }

map::Host host_with(int devices, int number) {
  map::Host host;
  host.id = format("host-{}", number);
  map::Island& island = host.islands.emplace_back();
  for (int i = 0; i < devices; ++i)
    island.devices.push_back({map::DeviceKind::gpu, i, std::nullopt, false});
  return host;
}

}  // namespace

map::ClusterMap map_of(const ReplayCluster& cluster) {
  map::ClusterMap map;
  for (int number = 0; number < cluster.hosts; ++number) {
    if (number % cluster.pod == 0) {
      map::Pod& pod = map.pods.emplace_back();
      pod.name = format("pod-{}", number / cluster.pod);
      pod.leaves.emplace_back();
    }
    map.pods.back().leaves.back().hosts.push_back(host_with(cluster.devices, number));
  }
  return map;
}

std::vector<sched::PendingRun> pending_runs_of(const JobTrace& trace,
                                               std::span<const Seconds> limits, int on_host) {
  std::vector<sched::PendingRun> pending_runs;
  for (std::size_t i = 0; i < trace.jobs.size(); ++i) {
    const Job& job = trace.jobs[i];
    sched::PendingRun pending;
    pending.run = run_of(JobId(static_cast<std::int64_t>(i)));
    pending.nodes = std::max(1, job.devices / on_host);
    pending.devices = std::min(job.devices, on_host);
    pending.remainder = job.devices > on_host ? job.devices % on_host : 0;
    pending.arrived = Time(job.submitted);
    pending.time_limit = limits[i];
    pending.moves_left = kMovesMax;
    pending.may_pause = true;
    if (job.devices <= on_host && limits[i] <= kDebugMax)
      pending.run_class = model::RunClass::debug;
    pending_runs.push_back(std::move(pending));
  }
  return pending_runs;
}

Result<void> check_all_fit(const JobTrace& trace, std::span<const sched::PendingRun> pending_runs,
                           const map::ClusterMap& map) {
  std::set<int> fitting;  // sizes that were looked at; there are few
  for (std::size_t i = 0; i < pending_runs.size(); ++i) {
    const Job& job = trace.jobs[i];
    if (!fitting.insert(job.devices).second || sched::check_fits(map, pending_runs[i])) continue;
    return Error{Code::invalid,
                 format("{}:{}: {} devices are more than the cluster can hold together; take a "
                        "larger one by --hosts, or drop the row",
                        trace.name, job.line, job.devices)};
  }
  return {};
}

sched::PendingRun& PassBackend::pending_run(const model::RunId& run) {
  return pending_runs_[static_cast<std::size_t>(job_of(run).value())];
}

Time& PassBackend::since(const model::RunId& run) {
  return since_[static_cast<std::size_t>(job_of(run).value())];
}

// The work since its last checkpoint is repeated, and does not count as used.
void PassBackend::interrupt(const model::RunId& run, Time now) {
  sched::PendingRun& left = pending_run(run);
  const Duration ran = now - since(run);
  const Duration kept = ran - ran % policy_.checkpoint_interval - policy_.restart_time;
  left.time_limit -= kept;
  left.time_used += kept;
  since(run) = now;
}

Result<Decision> PassBackend::decide(Seconds now, std::span<const JobId> ended,
                                     std::span<const JobId> arrived) {
  for (const JobId job : ended) scheduler_.remove_allocation(run_of(job));
  for (const JobId job : arrived) scheduler_.add_pending(pending_run(run_of(job)));
  Decision decision;
  // An evicted run may start on other hosts at once.
  while (!apply_plan(scheduler_.schedule(Time(now)), Time(now), decision)) {
  }
  if (const auto head = scheduler_.head()) decision.head = job_of(*head);
  return decision;
}

// True if no run was evicted.
bool PassBackend::apply_plan(const sched::Plan& plan, Time now, Decision& decision) {
  for (const model::RunId& run : plan.evictions) {
    decision.evicted.push_back(job_of(run));
    interrupt(run, now);
    scheduler_.add_pending(pending_run(run));
  }
  for (const sched::Move& move : plan.moves) {
    decision.moved.push_back(job_of(move.run));
    --pending_run(move.run).moves_left;
    interrupt(move.run, now);
  }
  for (const sched::Placement& start : plan.placements) {
    decision.started.push_back(job_of(start.run));
    since(start.run) = now;
  }
  return plan.evictions.empty();
}

}  // namespace lockstep::sim

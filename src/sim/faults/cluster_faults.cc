#include "sim/faults/cluster_faults.h"

#include <array>
#include <utility>
#include <vector>

namespace lockstep::sim {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr int kPercentOfClusterFaults = 50;  // of the kinds occur in one seed

}  // namespace

std::span<const ClusterFaults::Kind> ClusterFaults::kinds() {
  static constexpr std::array<Kind, 6> kKinds = {{
      {"the controller of the cluster stops", minutes(4), &ClusterFaults::stop_controller},
      {"calls of the controller are lost, late or doubled", minutes(3),
       &ClusterFaults::degrade_calls},
      {"a job is cancelled from outside", minutes(4), &ClusterFaults::cancel_job},
      {"a job is preempted", minutes(5), &ClusterFaults::preempt_job},
      {"others fill the cluster", minutes(4), &ClusterFaults::fill_cluster},
      {"the daemon dies before it hears of a submission", minutes(2),
       &ClusterFaults::crash_daemon_after_submission},
  }};
  return kKinds;
}

void ClusterFaults::begin() {
  for (const Kind& kind : kinds()) {
    if (!random_.percent(kPercentOfClusterFaults)) continue;
    parts_.context.trace("faults", "in this seed {}, every {} or so", kind.name, text(kind.mean));
    plan(kind);
  }
}

void ClusterFaults::plan(const Kind& kind) {
  parts_.context.timeline.after(random_.from_to(Duration(0), kind.mean * 2), [this, &kind] {
    if (stopped_) return;
    (this->*kind.strike)();
    plan(kind);
  });
}

void ClusterFaults::undo_after(Duration duration, const char* over, std::function<void()> undo) {
  parts_.context.timeline.after(duration, [this, over, undo = std::move(undo)] {
    if (stopped_) return;
    parts_.context.trace("fault", "{}", over);
    undo();
  });
}

void ClusterFaults::stop_and_undo() {
  stopped_ = true;
  parts_.cluster.set_away(false);
  parts_.engine.set_call_faults({});
}

void ClusterFaults::stop_controller() {
  const Duration duration = random_.from_to(seconds(2), minutes(2));
  parts_.context.trace("fault", "the controller of the cluster stops for {}", text(duration));
  parts_.cluster.set_away(true);
  undo_after(duration, "the controller of the cluster is back",
             [this] { parts_.cluster.set_away(false); });
}

void ClusterFaults::degrade_calls() {
  const ClusterCallFaults faults{random_.below(30), random_.below(30), random_.below(30),
                                 random_.below(30)};
  const Duration duration = random_.from_to(seconds(10), minutes(2));
  parts_.context.trace("fault",
                       "for {}, of all calls of the controller {}% are lost, {}% get no answer, "
                       "{}% are late, {}% doubled",
                       text(duration), faults.lost_percent, faults.answer_lost_percent,
                       faults.late_percent, faults.doubled_percent);
  parts_.engine.set_call_faults(faults);
  undo_after(duration, "calls of the controller are good again",
             [this] { parts_.engine.set_call_faults({}); });
}

void ClusterFaults::cancel_job() {
  end_any_job("is cancelled from outside", "was cancelled", model::EndBlame::engine);
}

void ClusterFaults::preempt_job() {
  end_any_job("is preempted", "was preempted", model::EndBlame::preemption);
}

void ClusterFaults::end_any_job(const char* what, const std::string& reason,
                                model::EndBlame blame) {
  std::vector<const SharedCluster::Job*> jobs;
  for (const auto& [id, job] : parts_.cluster.jobs())
    if (job.gang && job.state != SharedCluster::JobState::over) jobs.push_back(&job);
  if (jobs.empty() || parts_.cluster.is_away()) return;
  const SharedCluster::Job& job = *random_.one_of(jobs);
  parts_.context.trace("fault", "job {} of {} {}", job.id, text(job.gang->attempt.id), what);
  parts_.truth.mark_disturbed(job.gang->attempt);
  parts_.cluster.end_job(job.id, reason, blame);
}

void ClusterFaults::fill_cluster() {
  parts_.context.trace("fault", "others submit jobs for most of the cluster");
  parts_.cluster.submit_burst();
}

// The job exists, and the daemon does not know.
void ClusterFaults::crash_daemon_after_submission() {
  parts_.cluster.on_next_submission([this] {
    parts_.context.timeline.after(Duration(0), [this] {
      if (!stopped_) parts_.daemon.crash("before it hears of a submission");
    });
  });
}

}  // namespace lockstep::sim

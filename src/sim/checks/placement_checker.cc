#include "sim/checks/placement_checker.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "map/query.h"
#include "sim/world/shared_cluster.h"

namespace lockstep::sim {
namespace {

using std::chrono::seconds;

using Job = SharedCluster::Job;
using sched::is_at_engine;

// The engine asks every 5 s at most, and the daemon polls the engine once a second.
constexpr Duration kShown = seconds(12);
constexpr Duration kSubmitted = seconds(30);
constexpr Duration kStrayCancelled = seconds(20);       // a kill is repeated every 5 s
constexpr Duration kOrphanCancelled = seconds(40);      // after it was asked to stop
constexpr Duration kPlacementCheckGapMax = seconds(3);  // between two: the daemon was away

bool is_live(const Job& job) { return job.gang && job.state != SharedCluster::JobState::over; }

// The first one of the attempt that is not over; null if there is none.
const Job* job_of(const SharedCluster& cluster, const model::AttemptName& attempt) {
  for (const auto& [id, job] : cluster.jobs())
    if (is_live(job) && job.gang->attempt == attempt) return &job;
  return nullptr;
}

bool is_suspected(const model::HostRow& row, const model::RunId& run) {
  return row.state == model::HostState::avoided ||
         std::ranges::find(row.losses, text(run), &model::HostLoss::run) != row.losses.end();
}

sched::NaiveQueue queue_of_cluster(const QueueSnapshot& snapshot) {
  return {snapshot.engine_map, sched::policies::kOursWithMoves,
          static_cast<int>(map::device_count(snapshot.map))};
}

// It may wait because a run that waits for the other hosts is to get devices under its limit.
bool leaves_limit(const QueueSnapshot& snapshot, const sched::PendingRun& run) {
  const sched::Limits& limits = snapshot.before.settings.limits;
  return !map::hosts(snapshot.map).empty() && (limits.project_devices.contains(run.run.project) ||
                                               limits.user_devices.contains(run.user));
}

}  // namespace

bool PlacementChecker::is_of_cluster(const std::string& host) const {
  return model::engine_of(durable_, host) == durable_.placing_engine;
}

// --- Commits ---

void PlacementChecker::check(const Commit& commit) const {
  if (!cluster_) return;
  for (const auto& [id, attempt] : commit.attempts) {
    if (!durable_.attempts.contains(id)) check_new_attempt(commit, *attempt);
    check_loss(commit, *attempt);
  }
  for (const auto& [id, node] : commit.nodes) check_node(*node);
  check_starts(commit);
}

void PlacementChecker::check_new_attempt(const Commit& commit,
                                         const model::Attempt& attempt) const {
  for (const auto& [id, node] : commit.nodes) {
    if (id.attempt != attempt.id) continue;
    if (attempt.is_placed && is_of_cluster(node->host))
      context_.report_violation(
          format("{} is placed on {}, and its engine chooses hosts", text(id), node->host));
    if (!attempt.is_placed && !node->host.empty())
      context_.report_violation(
          format("{} begins on {}, and its engine has not named it", text(id), node->host));
  }
}

// A host is stored once, and it is the one that the cluster chose.
void PlacementChecker::check_node(const model::Node& node) const {
  const auto before = durable_.nodes.find(node.id);
  if (before == durable_.nodes.end() || before->second.host == node.host) return;
  const model::NodeName name = name_of(durable_, node.id);
  if (!before->second.host.empty())
    context_.report_violation(
        format("{} was on {} and is on {}", text(node.id), before->second.host, node.host));
  else if (const std::string host = cluster_->host_of(name); host != node.host)
    context_.report_violation(format("{} is said to be on {}, and the cluster chose {}",
                                     text(node.id), node.host, host.empty() ? "none" : host));
}

// Nothing is preempted for another run. A loss that the cluster blames on a host counts there, so
// that the next attempt goes elsewhere.
void PlacementChecker::check_loss(const Commit& commit, const model::Attempt& attempt) const {
  const auto before = durable_.attempts.find(attempt.id);
  if (attempt.is_placed || before == durable_.attempts.end() || before->second.draining ||
      !attempt.draining)
    return;
  if (attempt.cause == model::Cause::moved || attempt.cause == model::Cause::paused ||
      attempt.cause == model::Cause::evicted)
    context_.report_violation(
        format("{} is {}, and its engine chooses hosts", text(attempt.id), text(attempt.cause)));
  if (attempt.cause != model::Cause::node_lost && attempt.cause != model::Cause::launch_failed)
    return;
  const CommitView rows(durable_, commit);
  const auto lost_now = [&](const model::HostRow& row, const model::RunId& run) {
    return std::ranges::any_of(row.losses, [&](const model::HostLoss& loss) {
      return loss.run == text(run) && loss.time == context_.clock.now();
    });
  };
  std::vector<std::string> blamed;
  bool is_counted = false;
  for (const model::Node* known : model::nodes_of(durable_, attempt.id)) {
    const model::Node& node = *rows.find(known->id);
    if (node.state != model::NodeState::released || known->state == model::NodeState::released)
      continue;
    // The end of its host took nothing from the run, unless the job ended with it.
    if (known->id.index > 0 && model::ranks_are_final(*known)) continue;
    const auto row = commit.hosts.find(node.host);
    const bool counts = row != commit.hosts.end() && lost_now(*row->second, attempt.id.run);
    const SharedCluster::JobNode* end = cluster_->ended_node(name_of(durable_, node.id));
    if (!end) continue;
    const bool is_blamed = end->blame == model::EndBlame::host;
    if (is_blamed) blamed.push_back(node.host);
    is_counted = is_counted || (is_blamed && counts);
    const bool is_explained =
        !end->reason.empty() && attempt.reason.find(end->reason) != std::string::npos;
    if (!is_blamed && counts && is_explained)
      context_.report_violation(
          format("{} is blamed for the end of {}: {}", node.host, text(node.id), attempt.reason));
  }
  if (!blamed.empty() && !is_counted)
    context_.report_violation(format("{} failed under {}, and this does not count as a loss",
                                     joined(blamed, " and "), text(attempt.id)));
}

// Runs become jobs in the order of the queue, within the limits and the most jobs.
void PlacementChecker::check_starts(const Commit& commit) const {
  if (commit.attempts.empty()) return;
  const QueueSnapshot snapshot = queue_snapshot_of(durable_, commit);
  if (std::ranges::none_of(snapshot.starts, is_at_engine)) return;
  sched::QueueState after = snapshot.before;
  for (const sched::Allocation& start : snapshot.starts)
    after = with_started(std::move(after), start);
  const auto jobs = std::ranges::count_if(after.allocations, is_at_engine);
  if (jobs > durable_.settings.slurm_jobs_max)
    context_.report_violation(format("{} runs are jobs of the cluster, and {} may be", jobs,
                                     durable_.settings.slurm_jobs_max));
  const sched::NaiveQueue queue = queue_of_cluster(snapshot);
  const auto keys = queue.keys(snapshot.before);
  for (const sched::Allocation& start : snapshot.starts) {
    if (!is_at_engine(start)) continue;
    const auto run = std::ranges::find(snapshot.before.waiting, start.run, &sched::PendingRun::run);
    sched::QueueState without = after;  // this run: the debug share fills as runs start
    without.waiting.push_back(*run);
    std::erase_if(without.allocations,
                  [&](const sched::Allocation& one) { return one.run == start.run; });
    // The tier follows the debug share, the rest of a key is that of the start of the pass.
    const auto keys_at_last = queue.keys(without);
    const auto key_at_last = [&](const model::RunId& id) {
      auto key = keys.at(id);
      std::get<sched::NaiveQueue::Tier>(key) =
          std::get<sched::NaiveQueue::Tier>(keys_at_last.at(id));
      return key;
    };
    if (const auto limit = sched::NaiveQueue::exceeded_limit(after, *run))
      context_.report_violation(
          format("{} starts, and the {} holds more than it may", text(run->run), *limit));
    if (!queue.can_be_placed(snapshot.before, *run))
      context_.report_violation(format("{} starts, and no open hosts hold it", text(run->run)));
    for (const sched::PendingRun& other : after.waiting)
      if (keys.at(other.run) < keys.at(run->run) &&
          key_at_last(other.run) < key_at_last(run->run) && queue.can_be_placed(after, other) &&
          !sched::NaiveQueue::exceeded_limit(after, other) && !leaves_limit(snapshot, other))
        context_.report_violation(format("{} starts before {}, which stands ahead of it",
                                         text(run->run), text(other.run)));
  }
}

// --- Submissions ---

// Closed hosts and too small ones are excluded; suspected ones, if enough others are left; and no
// others are.
void PlacementChecker::check_exclusions(const engine::Gang& gang) const {
  if (!cluster_) return;
  const model::Run& run = durable_.runs.at(gang.attempt.id.run);
  std::vector<std::string> suspected;
  int trusted = 0;
  const auto is_excluded = [&](const std::string& host) {
    return std::ranges::find(gang.excluded_hosts, host) != gang.excluded_hosts.end();
  };
  for (const map::Host* host : map::hosts(durable_.map)) {
    if (!is_of_cluster(host->id)) continue;
    const auto row = durable_.hosts.find(host->id);
    const bool has_row = row != durable_.hosts.end();
    const bool is_closed = has_row && row->second.state >= model::HostState::closed;
    const bool is_suspect = !is_closed && has_row && is_suspected(row->second, run.id);
    if (is_suspect) suspected.push_back(host->id);
    const bool is_up = !has_row || row->second.unavailable.empty();
    if (!is_closed && !is_suspect && is_up &&
        std::cmp_greater_equal(map::device_count(*host), run.spec.devices))
      ++trusted;
    if (!is_suspect && is_closed != is_excluded(host->id))
      context_.report_violation(format("the job of {} {} {}, which is {}", text(gang.attempt.id),
                                       is_closed ? "may be placed on" : "excludes", host->id,
                                       is_closed ? "closed" : "open"));
  }
  for (const std::string& host : suspected)
    if (is_excluded(host) != (trusted >= model::node_count(run.spec)))
      context_.report_violation(
          format("the job of {} {} {}, which lost a run, and {} other hosts are trusted",
                 text(gang.attempt.id), is_excluded(host) ? "excludes" : "may be placed on", host,
                 trusted));
}

// --- The queue ---

// A run that waits at the cluster blocks no other run.
void PlacementChecker::check_queue(const model::State& state) const {
  if (!cluster_) return;
  const QueueSnapshot snapshot = queue_snapshot_of(state, {});
  const auto jobs = std::ranges::count_if(snapshot.before.allocations, is_at_engine);
  if (jobs >= state.settings.slurm_jobs_max) return;
  const sched::NaiveQueue queue = queue_of_cluster(snapshot);
  for (const sched::PendingRun& run : snapshot.before.waiting)
    if (queue.can_be_placed(snapshot.before, run) &&
        !sched::NaiveQueue::exceeded_limit(snapshot.before, run) && !leaves_limit(snapshot, run))
      context_.report_violation(format("{} waits, and the cluster could have it as a job: {}",
                                       text(run.run), state.runs.at(run.run).reason));
}

// --- While nothing hinders the daemon ---

bool PlacementChecker::is_quiet_since(Duration moment, Duration limit) const {
  return checked_ - std::max(moment, quiet_) >= limit;
}

void PlacementChecker::check_quiet(bool well) {
  if (!cluster_) return;
  const Duration now = context_.timeline.now();
  if (!well || now - checked_ >= kPlacementCheckGapMax) quiet_ = now;
  checked_ = now;
  for (const model::AttemptId& id : durable_.live) check_shown(durable_.attempts.at(id));
  check_no_stray_jobs();
}

void PlacementChecker::check_shown(const model::Attempt& attempt) const {
  if (attempt.is_placed || attempt.draining) return;
  const model::Run& run = durable_.runs.at(attempt.id.run);
  const Job* job = job_of(*cluster_, name_of(attempt));
  const Duration created = attempt.created - context_.clock.at(Duration(0));
  if (!job) {
    if (!cluster_->knows(name_of(attempt)) && is_quiet_since(created, kSubmitted))
      context_.report_violation(text(attempt.id) + " is no job of the cluster");
    return;
  }
  const std::string words = format("waits in the queue of {}: {}", engine_, job->pending_reason);
  const bool waits = job->state == SharedCluster::JobState::pending;
  const Duration since = std::max(created, waits ? job->reason_since : job->started);
  if (!is_quiet_since(since, kShown)) return;
  if (waits ? run.reason != words : run.reason.starts_with("waits in the queue of"))
    context_.report_violation(format("{} is shown as \"{}\", and its job {}", text(run.id),
                                     run.reason, waits ? words : "runs"));
  check_shown_hosts(attempt);
}

void PlacementChecker::check_shown_hosts(const model::Attempt& attempt) const {
  for (const model::Node* node : model::nodes_of(durable_, attempt.id))
    if (const std::string host = cluster_->host_of(name_of(durable_, node->id)); node->host != host)
      context_.report_violation(format("{} is shown on {}, and the cluster has it on {}",
                                       text(node->id), node->host.empty() ? "-" : node->host,
                                       host.empty() ? "-" : host));
}

// Jobs that nothing owns: the younger of two of an attempt, those of attempts that have ended, and
// those of orphans that are to stop.
void PlacementChecker::check_no_stray_jobs() const {
  for (const auto& [id, job] : cluster_->jobs()) {
    if (!is_live(job) || job.cancelled) continue;
    const model::AttemptName& name = job.gang->attempt;
    const model::NodeName node{name.generation, {name.id, 0}};
    if (job_of(*cluster_, name) != &job && is_quiet_since(job.submitted, kShown))
      context_.report_violation(format("job {} is the second one of {}", id, text(name.id)));
    if (const auto orphan = durable_.orphans.find(node);
        orphan != durable_.orphans.end() && orphan->second.stop_requested_at) {
      const Duration asked = *orphan->second.stop_requested_at - context_.clock.at(Duration(0));
      if (is_quiet_since(std::max(asked, job.submitted), kOrphanCancelled))
        context_.report_violation(
            format("job {} is of an orphan that is to stop, {}", id, text(name.id)));
    }
    if (!model::has_node(durable_, node)) continue;
    const model::Attempt& attempt = durable_.attempts.at(name.id);
    if (attempt.state != model::AttemptState::ended) continue;
    const Duration ended = *attempt.ended - context_.clock.at(Duration(0));
    if (is_quiet_since(std::max(ended, job.submitted), kStrayCancelled))
      context_.report_violation(
          format("job {} is of {}, which has ended, and nothing cancels it", id, text(name.id)));
  }
}

}  // namespace lockstep::sim

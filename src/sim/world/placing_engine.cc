#include "sim/world/placing_engine.h"

#include <algorithm>
#include <utility>

namespace lockstep::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// As in SlurmEngine::Setup.
constexpr Duration kFirstInterval = milliseconds(500);
constexpr Duration kBusyInterval = seconds(2);
constexpr Duration kCalmInterval = seconds(5);
constexpr Duration kPlacingListAgeMax = seconds(30);
constexpr Duration kSubmitPauseFirst = seconds(2);
constexpr Duration kSubmitPauseMax = seconds(60);
constexpr Duration kFailureListed = std::chrono::minutes(10);

constexpr Duration kWayMin = milliseconds(1);  // of a call to the controller, and of its answer
constexpr Duration kWayMax = milliseconds(300);
constexpr Duration kCallTimeout = seconds(10);
constexpr Duration kLateMax = seconds(40);
constexpr Duration kYoungList = seconds(6);

}  // namespace

// Another daemon has another engine object: it knows nothing of the one before.
void PlacingEngine::begin_life() {
  if (life_ == components_.crash_points.crashes()) return;
  life_ = components_.crash_points.crashes();
  has_problem_ = false;
  lists_begun_ = 0;
  jobs_ = {};
  submissions_.clear();
  kills_.clear();
  refresh();
}

void PlacingEngine::if_alive(Duration delay, std::function<void()> act) {
  components_.context.timeline.after(delay, [this, life = life_, act = std::move(act)] {
    if (components_.crash_points.alive() && life == components_.crash_points.crashes()) act();
  });
}

// --- Calls of the controller ---

// A call that is under way has its effect, whether its daemon lives or not.
void PlacingEngine::call(Act act, std::function<void()> fail) {
  const Duration slow = components_.faults.slow > Duration(0)
                            ? random_.from_to(Duration(0), components_.faults.slow)
                            : Duration(0);
  if (random_.percent(call_faults_.lost_percent)) return if_alive(kCallTimeout, std::move(fail));
  const bool is_late = slow >= kCallTimeout || random_.percent(call_faults_.late_percent);
  const Duration way =
      is_late ? random_.from_to(kCallTimeout, kLateMax) : slow + random_.from_to(kWayMin, kWayMax);
  if (is_late) if_alive(kCallTimeout, fail);
  components_.context.timeline.after(
      way, [this, act = std::move(act), fail = std::move(fail), is_late, life = life_, way] {
        const bool is_own =
            components_.crash_points.alive() && life == components_.crash_points.crashes();
        take_call(act, std::max(Duration(0), kCallTimeout - way), is_late || !is_own, fail);
      });
}

// At the controller. is_late: no answer is heard.
void PlacingEngine::take_call(const Act& act, Duration until_timeout, bool is_late,
                              std::function<void()> fail) {
  if (components_.cluster.is_away()) {
    if (!is_late) if_alive(until_timeout, std::move(fail));
    return;
  }
  const auto answer = act();
  if (random_.percent(call_faults_.doubled_percent))
    components_.context.timeline.after(random_.from_to(kWayMin, kWayMax), [this, act] {
      if (!components_.cluster.is_away()) act();
    });
  if (is_late) return;
  if (random_.percent(call_faults_.answer_lost_percent))
    return if_alive(until_timeout, std::move(fail));
  if_alive(random_.from_to(kWayMin, kWayMax), answer);
}

// --- Lists ---

void PlacingEngine::refresh() {
  const std::int64_t number = ++lists_begun_;
  const Duration begun = components_.context.timeline.now();
  const auto act = [this, number, begun]() -> std::function<void()> {
    Jobs jobs{.number = number,
              .begun = begun,
              .jobs = components_.cluster.list(),
              .unfit = components_.cluster.unfit_hosts()};
    return [this, jobs = std::move(jobs)] {
      publish(jobs);
      plan_refresh();
    };
  };
  const auto fail = [this] {
    has_problem_ = true;
    plan_refresh();
  };
  if (components_.faults.list_fails) return if_alive(seconds(1), fail);
  call(act, fail);
}

void PlacingEngine::plan_refresh() {
  if_alive(interval(), [this] { refresh(); });
}

Duration PlacingEngine::interval() const {
  bool is_busy = !kills_.empty() || has_problem_;
  for (const auto& [attempt, submission] : submissions_) {
    if (submission.state == Submission::State::submitted) return kFirstInterval;
    is_busy = true;
  }
  for (const SharedCluster::ListedJob& job : jobs_.jobs)
    for (const engine::ListedNode& node : job.nodes)
      is_busy = is_busy || node.seen.phase == model::NodePhase::pending ||
                node.seen.phase == model::NodePhase::starting || !node.seen.has_agent;
  return is_busy ? kBusyInterval : kCalmInterval;
}

bool PlacingEngine::has_job(const model::AttemptName& attempt) const {
  return std::ranges::find(jobs_.jobs, attempt, &SharedCluster::ListedJob::attempt) !=
         jobs_.jobs.end();
}

void PlacingEngine::publish(Jobs jobs) {
  has_problem_ = false;
  jobs_ = {.number = jobs.number, .begun = jobs.begun, .unfit = std::move(jobs.unfit)};
  for (SharedCluster::ListedJob& job : jobs.jobs) {
    if (!has_job(job.attempt)) {
      jobs_.jobs.push_back(std::move(job));
    } else if (job.state != SharedCluster::JobState::over) {
      cancel_duplicate(job.id);
      keep_nodes(job.attempt);
    }
  }
  drop_submissions();
  execute_kills();
  submit_due();
}

// Agents of the second job may still run.
void PlacingEngine::keep_nodes(const model::AttemptName& attempt) {
  const auto first = std::ranges::find(jobs_.jobs, attempt, &SharedCluster::ListedJob::attempt);
  for (engine::ListedNode& node : first->nodes)
    if (node.seen.phase == model::NodePhase::gone)
      node.seen = {.has_agent = false, .handle = node.seen.handle, .host = node.seen.host};
}

void PlacingEngine::cancel_duplicate(SharedCluster::JobId job) {
  components_.context.trace("engine", "cancels job {}, the second of its attempt", job);
  call(
      [this, job]() -> std::function<void()> {
        components_.cluster.cancel_job(job);
        return [] {};
      },
      [] {});
}

bool PlacingEngine::is_well() const {
  return !components_.faults.any() && !call_faults_.any() && !components_.cluster.is_away() &&
         !has_problem_ && jobs_.number > 0 &&
         components_.context.timeline.now() - jobs_.begun <= kYoungList;
}

Result<engine::EngineList> PlacingEngine::list() {
  const Error dead{Code::unavailable, "the daemon is dead"};
  if (!components_.crash_points.pass("before a look")) return dead;
  begin_life();
  if (!components_.crash_points.pass("after a look")) return dead;
  if (jobs_.number == 0 || components_.context.timeline.now() - jobs_.begun > kPlacingListAgeMax)
    return Error{Code::unavailable, "the cluster does not answer"};
  engine::EngineList listed{.nodes = {}, .unfit = jobs_.unfit};
  for (const SharedCluster::ListedJob& job : jobs_.jobs)
    listed.nodes.insert(listed.nodes.end(), job.nodes.begin(), job.nodes.end());
  for (const auto& [attempt, submission] : submissions_)
    if (!has_job(attempt)) add_submission(submission, listed.nodes);
  std::ranges::sort(listed.nodes, {}, &engine::ListedNode::node);
  return listed;
}

// A list that began after its last call shows that this had no effect.
bool PlacingEngine::has_no_job(const Submission& submission) const {
  return submission.state == Submission::State::queued && submission.list < jobs_.number;
}

void PlacingEngine::add_submission(const Submission& submission,
                                   std::vector<engine::ListedNode>& nodes) const {
  const bool failed = submission.state == Submission::State::failed;
  const bool has_job = submission.state == Submission::State::submitted;
  model::Observation seen{
      .phase = failed ? model::NodePhase::gone : model::NodePhase::pending,
      .reason = submission.reason.empty() ? "it is being submitted" : submission.reason,
      .blame = failed ? model::EndBlame::engine : model::EndBlame::unknown};
  if (has_job) seen.handle = format("{}", submission.job);
  for (const engine::NodePlacement& placement : submission.gang->nodes)
    if (!has_no_job(submission) || !submission.killed.contains(placement.index))
      nodes.push_back({.node = engine::node_name(*submission.gang, placement), .seen = seen});
}

// --- Submissions ---

void PlacingEngine::submit(engine::Gang gang) {
  if (!components_.crash_points.alive()) return;
  begin_life();
  components_.truth.placement().check_exclusions(gang);
  if (has_job(gang.attempt) || submissions_.contains(gang.attempt)) return;
  Submission& submission = submissions_[gang.attempt];
  submission.gang = std::make_shared<const engine::Gang>(std::move(gang));
  submission.pause = kSubmitPauseFirst;
  if_alive(Duration(0), [this] { submit_due(); });
}

// Once a list that began later shows that the last call had no effect.
void PlacingEngine::submit_due() {
  if (has_problem_) return;
  const Duration now = components_.context.timeline.now();
  std::vector<std::shared_ptr<const engine::Gang>> due;
  for (const auto& [attempt, submission] : submissions_)
    if (submission.state == Submission::State::queued && submission.retry <= now &&
        submission.list < jobs_.number && submission.killed.empty())
      due.push_back(submission.gang);
  for (const auto& gang : due)
    if (components_.crash_points.alive()) submit_job(gang);
}

void PlacingEngine::submit_job(const std::shared_ptr<const engine::Gang>& gang) {
  const auto has_started = [&](const engine::NodePlacement& placement) {
    return components_.cluster.has_started(engine::node_name(*gang, placement));
  };
  if (std::ranges::any_of(gang->nodes, has_started))
    return record_submission(gang->attempt, Error{Code::already_exists, std::string(kHasStarted)});
  if (!components_.crash_points.pass("before a launch")) return;
  submissions_.at(gang->attempt).state = Submission::State::called;
  for (const engine::NodePlacement& placement : gang->nodes)
    components_.truth.gang_submitted(engine::launch_spec(*gang, placement, "/home/shared"));
  components_.context.trace("engine", "submits {}", text(gang->attempt));
  call(
      [this, gang]() -> std::function<void()> {
        const auto job = components_.cluster.submit(gang);
        return [this, attempt = gang->attempt, job] { record_submission(attempt, job); };
      },
      [this, attempt = gang->attempt] {
        record_submission(attempt, Error{Code::unavailable, "the cluster does not answer"});
      });
  components_.crash_points.pass("after a launch");
}

void PlacingEngine::record_submission(const model::AttemptName& attempt,
                                      const Result<SharedCluster::JobId>& job) {
  const auto found = submissions_.find(attempt);
  if (found == submissions_.end()) return;
  Submission& submission = found->second;
  const Duration now = components_.context.timeline.now();
  submission.list = lists_begun_;
  if (job) {
    submission.state = Submission::State::submitted;
    submission.job = *job;
    submission.reason = format("the cluster has queued job {}", *job);
    return;
  }
  if (job.error().code == Code::already_exists && !submission.had_agents) {
    submission.had_agents = true;
    submission.state = Submission::State::queued;
    return;
  }
  submission.reason = job.error().message;
  if (job.error().code == Code::unavailable) {
    submission.state = Submission::State::queued;
    submission.retry = now + submission.pause;
    submission.pause = std::min(submission.pause * 2, kSubmitPauseMax);
    return;
  }
  components_.truth.mark_disturbed(attempt);
  submission.state = Submission::State::failed;
  submission.failed = now;
}

// Those that the list shows, those that will never be submitted, and old failures.
void PlacingEngine::drop_submissions() {
  const Duration now = components_.context.timeline.now();
  std::erase_if(submissions_, [&](const auto& entry) {
    const auto& [attempt, submission] = entry;
    const bool is_shown =
        submission.state == Submission::State::submitted && submission.list < jobs_.number;
    const bool is_killed =
        has_no_job(submission) && submission.killed.size() >= submission.gang->nodes.size();
    const bool is_forgotten =
        submission.state == Submission::State::failed && now - submission.failed >= kFailureListed;
    return is_shown || is_killed || is_forgotten || has_job(attempt);
  });
}

// --- Kills ---

void PlacingEngine::kill(const model::NodeName& node) {
  if (!components_.crash_points.pass("before a kill")) return;
  begin_life();
  components_.truth.check_kill(node);
  components_.context.trace("engine", "is to kill {}", text(node));
  if (const auto found = submissions_.find(node.attempt()); found != submissions_.end())
    found->second.killed.insert(node.id.index);
  kills_.insert(node);
  if_alive(Duration(0), [this] {
    drop_submissions();
    execute_kills();
  });
  components_.crash_points.pass("after a kill");
}

void PlacingEngine::execute_kills() {
  if (has_problem_ || jobs_.number == 0) return;
  std::erase_if(kills_, [&](const model::NodeName& node) { return execute_kill(node); });
}

// False: it is about to start, and keeps its request.
bool PlacingEngine::execute_kill(const model::NodeName& node) {
  for (const SharedCluster::ListedJob& job : jobs_.jobs) {
    const auto listed = std::ranges::find(job.nodes, node, &engine::ListedNode::node);
    if (listed == job.nodes.end()) continue;
    if (listed->seen.phase == model::NodePhase::gone) return true;
    if (listed->seen.phase == model::NodePhase::starting) return false;
    const bool is_pending = listed->seen.phase == model::NodePhase::pending;
    call(
        [this, is_pending, id = job.id, index = node.id.index]() -> std::function<void()> {
          if (is_pending)
            components_.cluster.cancel_job(id);
          else
            components_.cluster.cancel_node(id, index);
          return [] {};
        },
        [] {});
    return true;
  }
  return !submissions_.contains(node.attempt());
}

}  // namespace lockstep::sim

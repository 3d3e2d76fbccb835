#include "sim/checks/ground_truth.h"

#include <algorithm>

#include "sim/checks/widespread_silence.h"
#include "sim/world/machine_map.h"

namespace lockstep::sim {
namespace {

// A clean run may take this much longer than its steps: the start of agents, and reports in flight.
constexpr Duration kOverhead = std::chrono::seconds(20);
// After hang_after: an agent that gets no answer waits a minute before it stops a rank that hangs.
constexpr Duration kHangDetectionMax = std::chrono::seconds(90);
// From SIGTERM to a rank until its end by force.
constexpr Duration kStopTime = std::chrono::seconds(11);

int attempts_allowed(const model::RunSpec& spec) {
  return 1 + spec.retries + spec.rank_loss_retries;
}

model::AttemptName attempt_of(const host::LaunchSpec& launch) {
  return {launch.generation, model::parse_node_id(launch.node).value().attempt};
}

model::NodeName node_of(const model::NodeReport& report) {
  return {report.generation, report.node};
}

// True if two stores have the same rows of the run, except for the times of reports.
bool same_rows(const model::State& one, const model::State& other, const model::RunId& id) {
  const auto a = one.runs.find(id), b = other.runs.find(id);
  if (a == one.runs.end() || b == other.runs.end() || a->second != b->second) return false;
  const auto live = [&](const model::State& state) { return model::live_attempt(state, id); };
  if (!live(one) || !live(other)) return live(one) == live(other);
  return *live(one) == *live(other);
}

bool share_a_device(const std::vector<int>& a, const std::vector<int>& b) {
  return std::ranges::any_of(a,
                             [&](int device) { return std::ranges::find(b, device) != b.end(); });
}

}  // namespace

void GroundTruth::process_began(ProcessId id, Process process) {
  const bool is_lost = lost_hosts_.contains(process.host);
  const bool is_given_up = given_up_.contains(process.name());
  for (const auto& [other, theirs] : processes_)
    if (!is_lost && theirs.host == process.host && theirs.name() != process.name() &&
        share_a_device(theirs.devices, process.devices))
      context_.report_violation(format("{} starts on {} on devices of {}, which still lives",
                                       text(process.node), process.host, text(theirs.node)));
  processes_.emplace(id, std::move(process));
  if (is_lost || is_given_up) disown(id);
}

// --- Hosts that an operator declared lost ---

void GroundTruth::declare_lost(const std::string& host) {
  lost_hosts_.insert(host);
  for (const auto& [id, process] : processes_)
    if (process.host == host) {
      disown(id);
      orphans_to_stop_.erase(process.name());
    }
  for (const model::RunId& run : durable_.open)
    if (const model::Attempt* attempt = model::live_attempt(durable_, run))
      for (const model::Node* node : model::nodes_of(durable_, attempt->id))
        if (node->host == host) mark_disturbed(name_of(*attempt));
}

// Its host does not answer, so the next attempt may begin while its ranks still run. They hold
// devices that no other node gets, and make no checkpoint once the next attempt has claimed them.
void GroundTruth::give_up(const model::NodeName& node) {
  given_up_.insert(node);
  mark_disturbed(node.attempt());
  for (const auto& [id, process] : processes_)
    if (process.name() == node) disown(id);
}

// An older copy of the store does not know the newest attempts of its runs. It learns of their
// nodes from their hosts, if these have joined and can be asked.
void GroundTruth::disown_unknown_nodes(const model::RunId& run) {
  if (!durable_.hosts_make_map) return;
  for (const auto& [id, process] : processes_)
    if (process.node.attempt.run == run && !model::has_node(durable_, process.name()) &&
        host_checker_.is_unknown(process.host))
      disown(id);
}

void GroundTruth::disown(ProcessId id) {
  disowned_.insert(id);
  const Process& process = processes_.at(id);
  const model::AttemptName attempt = process.name().attempt();
  disowned_attempts_.insert(attempt);
  mark_disturbed(attempt);
  if (!process.is_agent) return;
  for (int local = 0; std::cmp_less(local, process.devices.size()); ++local)
    ranks_[attempt.id.run].erase({attempt, process.first_rank + local});
}

bool GroundTruth::is_disowned(const model::AttemptName& attempt, int rank) const {
  return std::ranges::any_of(processes_, [&](const auto& entry) {
    const auto& [id, process] = entry;
    const int local = rank - process.first_rank;
    return process.is_agent && process.name().attempt() == attempt && local >= 0 &&
           std::cmp_less(local, process.devices.size()) && disowned_.contains(id);
  });
}

// Ranks of a newer attempt of the run have begun.
bool GroundTruth::is_superseded(const model::AttemptName& attempt) const {
  return std::ranges::any_of(gang_starts_, [&](const auto& entry) {
    return entry.first.id.run == attempt.id.run && launched_.contains(entry.first) &&
           launched_.at(entry.first).order > launched_.at(attempt).order;
  });
}

void GroundTruth::host_unavailable(const std::string& host) {
  unavailable_hosts_[host] = context_.timeline.now();
}

// A node starts too late if its order arrives late. After a restart of the daemon, a gang waits
// until all its hosts can be asked.
void GroundTruth::excuse_unavailable_hosts(const model::Attempt& attempt) {
  if (attempt.cause != model::Cause::launch_failed) return;
  for (const model::Node* node : model::nodes_of(durable_, attempt.id)) {
    const auto failed = unavailable_hosts_.find(node->host);
    if (failed != unavailable_hosts_.end() &&
        context_.timeline.now() - failed->second <= kStartTimeLimit)
      return mark_disturbed(name_of(attempt));
  }
}

void GroundTruth::process_ended(ProcessId id) {
  const auto found = processes_.find(id);
  if (found == processes_.end()) return;
  if (found->second.is_agent) agent_end_times_[found->second.name()] = context_.timeline.now();
  processes_.erase(found);
}

void GroundTruth::rank_began(const model::AttemptName& attempt, int rank) {
  const Duration now = context_.timeline.now();
  GangStart& beginning = gang_starts_.try_emplace(attempt, GangStart{.first = now}).first->second;
  beginning.last = now;
  ++beginning.ranks;
  times_.rank_began(attempt);
  if (is_disowned(attempt, rank)) return;
  auto& alive = ranks_[attempt.id.run];
  for (const auto& [other, theirs] : alive)
    if (other != attempt)
      context_.report_violation(format("ranks of two attempts of {} run at once: {} and {}",
                                       text(attempt.id.run), text(other), text(attempt)));
  if (!alive.emplace(attempt, rank).second)
    context_.report_violation(format("rank {} of {} runs twice", rank, text(attempt)));
  if (!told_to_start_.contains(attempt))
    context_.report_violation(format("ranks of {} start without a command", text(attempt)));
}

// The store may be replaced before the ranks start, so this is checked at the answer.
void GroundTruth::check_gang_is_ready(const model::AttemptName& attempt) const {
  for (const model::Node* node : model::nodes_of(durable_, attempt.id))
    if (node->address.empty())
      context_.report_violation(
          format("ranks of {} start before {} is ready", text(attempt), text(node->id)));
}

void GroundTruth::rank_ended(const model::AttemptName& attempt, int rank, model::RankState state,
                             int code) {
  ranks_[attempt.id.run].erase({attempt, rank});
  if (state == model::RankState::exited && code == 0) exited_well_[attempt].insert(rank);
  cause_checker_.record_rank_end(attempt);
  times_.rank_ended(attempt);
  if (suspended_ranks_[attempt].erase(rank) > 0) disturbed_.insert(attempt.id.run);
}

void GroundTruth::rank_suspended(const host::LaunchSpec& launch, int rank, bool has_stepped) {
  const model::AttemptName attempt = attempt_of(launch);
  suspended_ranks_[attempt].emplace(rank, context_.timeline.now());
  const bool watched = has_stepped && launch.hang_after > Duration(0);
  cause_checker_.record_fault(
      attempt,
      {.causes = {model::Cause::hung},
       .reason_part = format("rank {} on host {}", rank, launch.host),
       .detection_time_max = watched ? launch.hang_after + kHangDetectionMax : Duration::max()});
}

bool GroundTruth::is_known_as_stopped(const model::AttemptName& attempt, int rank) const {
  return std::ranges::any_of(model::nodes_of(durable_, attempt.id), [&](const model::Node* node) {
    return std::ranges::any_of(node->ranks, [&](const model::Rank& known) {
      return known.rank == rank && known.activity == model::Activity::stopped;
    });
  });
}

// A suspended rank costs its run the time of the suspension and the step in progress.
void GroundTruth::rank_resumed(const host::LaunchSpec& launch, int rank) {
  const model::AttemptName attempt = attempt_of(launch);
  const Program program = program_of(launch.command);
  Duration& sum = suspended_time_[attempt.id.run];
  sum += context_.timeline.now() - suspended_ranks_[attempt].at(rank) + 2 * program.step_time;
  suspended_ranks_[attempt].erase(rank);
  const auto within = [&](Duration limit) { return limit == Duration(0) || sum < limit; };
  if (within(launch.hang_after) && within(program.step_timeout)) {
    // Until its agent reports that it goes on, a failure of any rank counts as its fault.
    if (is_known_as_stopped(attempt, rank)) cause_checker_.allow_any_cause(attempt);
    return cause_checker_.remove_fault(attempt);
  }
  disturbed_.insert(attempt.id.run);
  // If all ranks make no step, the lowest rank is named, until one is seen to be stopped.
  if (!cause_checker_.is_detected(attempt, "is stopped")) cause_checker_.allow_any_cause(attempt);
}

// --- Agents ---

// A start within the limit costs nothing.
void GroundTruth::start_delayed(const host::LaunchSpec& launch, Duration late) {
  const model::NodeId node = model::parse_node_id(launch.node).value();
  if (late < kStartTimeLimit) return;
  record_fault(attempt_of(launch), {{model::Cause::launch_failed},
                                    format("node {} on host {}", node.index, launch.host)});
}

void GroundTruth::delayed_start_done(const host::LaunchSpec& launch, Duration late) {
  const model::AttemptName attempt = attempt_of(launch);
  if (late >= kStartTimeLimit && !cause_checker_.is_detected(attempt)) mark_disturbed(attempt);
}

// If the whole gang was there, the time-out ends the attempt.
void GroundTruth::start_wait_timed_out(const host::LaunchSpec& launch) {
  const model::AttemptName attempt = attempt_of(launch);
  if (gang_starts_.at(attempt).ranks < launch.world_size)
    record_fault(attempt, {{model::Cause::launch_failed}});
}

void GroundTruth::time_limit_reached(const host::LaunchSpec& launch, Duration limit_known) {
  const model::AttemptName attempt = attempt_of(launch);
  const auto run = durable_.runs.find(attempt.id.run);
  if (run != durable_.runs.end() && model::time_left(run->second) > limit_known)
    mark_disturbed(attempt);
}

void GroundTruth::check_unattended_time(const host::LaunchSpec& launch, Duration alone) const {
  const auto run = durable_.runs.find(attempt_of(launch).id.run);
  const Duration extended = run == durable_.runs.end() ? Duration(0) : run->second.extended;
  if (alone <= kStartTimeLimit + launch.time_left + extended + kStopTime) return;
  context_.report_violation(format("a rank of {} ran for {} without a daemon, and had {} left",
                                   launch.node, text(alone), text(launch.time_left)));
}

// The node may only be killed by force, and the attempt no longer depends on it.
bool GroundTruth::is_abandoned(const model::NodeName& name) const {
  const auto node = durable_.nodes.find(name.id);
  const model::Attempt* attempt = model::live_attempt(durable_, name.id.attempt.run);
  if (node == durable_.nodes.end() || !attempt || name_of(*attempt) != name.attempt()) return true;
  return node->second.state >= model::NodeState::released;
}

void GroundTruth::check_forced_end(const model::NodeName& id) const {
  if (!is_abandoned(id))
    context_.report_violation(
        format("ranks of {} are ended by force, and were not asked to end", text(id)));
}

// Node 0 hosts the rendezvous, also while the ranks end in order.
void GroundTruth::check_agent_exit(const model::NodeName& id) const {
  if (is_abandoned(id)) return;
  for (const model::Node* node : model::nodes_of(durable_, id.id.attempt))
    if (!is_abandoned({id.generation, node->id}) && has_ranks(*node))
      context_.report_violation(
          format("{} leaves while ranks of {} run", text(id), text(node->id)));
}

bool GroundTruth::has_agent(const model::NodeName& node) const {
  return std::ranges::any_of(processes_, [&](const auto& entry) {
    return entry.second.name() == node && entry.second.is_agent;
  });
}

std::optional<Time> GroundTruth::agent_ended(const model::NodeName& node) const {
  return has_agent(node) ? std::nullopt : time_of(agent_end_times_, node);
}

bool GroundTruth::has_reported_all_ends(const model::NodeName& name) const {
  return has_reported_all_ends(durable_, name);
}

bool GroundTruth::has_reported_all_ends(const model::State& store, const model::NodeName& name) {
  if (!model::has_node(store, name)) return false;
  const auto found = store.nodes.find(name.id);
  const model::Node& node = found->second;
  const bool over = std::ranges::none_of(
      node.ranks, [](const model::Rank& rank) { return rank.state == model::RankState::running; });
  const bool all = node.ranks.size() == node.devices.size();
  return over && (all || node.state == model::NodeState::stopping);
}

int GroundTruth::checkpoint_of(const model::RunId& run) const {
  const auto found = checkpoints_.find(run);
  return found == checkpoints_.end() ? 0 : found->second.first;
}

void GroundTruth::checkpointed(const model::AttemptName& attempt, int step) {
  auto& [last, writer] = checkpoints_[attempt.id.run];
  // Its checkpoints are refused once a newer attempt writes (docs/design/checkpoint.md).
  if (disowned_attempts_.contains(attempt) && is_superseded(attempt)) return;
  if (last > 0 && launched_.at(attempt).order < launched_.at(writer).order)
    context_.report_violation(
        format("{} writes a checkpoint after {} did", text(attempt), text(writer)));
  if (step <= last)
    context_.report_violation(
        format("{} commits step {} again: {} steps were safe", text(attempt), step, last));
  last = step;
  writer = attempt;
  checkpoint_writers_.insert(attempt);
}

void GroundTruth::check_submission(const host::LaunchSpec& launch) {
  const model::NodeName name{launch.generation, model::parse_node_id(launch.node).value()};
  const model::RunId& id = name.id.attempt.run;
  const model::Attempt* attempt = model::live_attempt(durable_, id);
  if (!durable_.nodes.contains(name.id) || !attempt || name_of(*attempt) != name.attempt())
    return context_.report_violation(
        format("{} is launched, but its attempt is not live", launch.node));
  record_folder(id, launch.checkpoint_folder);
  const model::Run& run = durable_.runs.at(id);
  // It may have been extended since the order: its agent will hear of it.
  if (const Duration left = model::time_left(run);
      launch.time_left > left || launch.time_left < left - run.extended)
    context_.report_violation(format("{} is given {}, its run has {} left", launch.node,
                                     text(launch.time_left), text(left)));
}

GroundTruth::LaunchRecord& GroundTruth::record_launch(const host::LaunchSpec& launch) {
  const auto order = static_cast<std::int64_t>(launched_.size());
  LaunchRecord& launched =
      launched_.try_emplace(attempt_of(launch), LaunchRecord{.order = order}).first->second;
  launched.time_left = launch.time_left;
  return launched;
}

void GroundTruth::gang_submitted(const host::LaunchSpec& launch) {
  check_submission(launch);
  record_launch(launch);
}

// Once for each node. A second launch is allowed only if the agent ended unreported while the
// daemon was away: this looks the same as a launch that never happened.
void GroundTruth::check_launch(const host::LaunchSpec& launch) {
  const model::NodeName name{launch.generation, model::parse_node_id(launch.node).value()};
  const model::NodeId& id = name.id;
  if (is_alive(name))
    context_.report_violation(format("{} is launched while it is there", launch.node));
  LaunchRecord& launched = record_launch(launch);
  const bool again = !launched.nodes.insert(id.index).second;
  cause_checker_.record_launch(name.attempt());
  if (!model::has_node(durable_, name)) return;  // an order of a daemon with another store
  const model::NodeState state = durable_.nodes.at(id).state;
  // A job may be queued after its attempt was given up; it is cancelled (PlacementChecker).
  const bool may_be_late =
      !durable_.attempts.at(id.attempt).is_placed && state == model::NodeState::released;
  if (again &&
      ((state != model::NodeState::allocated && !may_be_late) || report_times_.contains(name)))
    context_.report_violation(format("{} is launched again after it was heard", launch.node));
  if (state == model::NodeState::released && !lost_hosts_.contains(launch.host) && !may_be_late)
    context_.report_violation(format("{} is launched after it was released", launch.node));
}

// In the folder of a run, another run would find its checkpoints.
void GroundTruth::record_folder(const model::RunId& run, const std::string& folder) {
  const auto given = run_folders_.emplace(run, folder).first;
  if (given->second != folder)
    context_.report_violation(
        format("{} is the name of two runs, in {} and {}", text(run), given->second, folder));
}

bool GroundTruth::is_alive(const model::NodeName& node) const {
  return std::ranges::any_of(processes_,
                             [&](const auto& entry) { return entry.second.name() == node; });
}

// The node must be in the store.
bool GroundTruth::has_ranks(const model::Node& node) const {
  const auto alive = ranks_.find(node.id.attempt.run);
  if (alive == ranks_.end()) return false;
  const model::AttemptName attempt = name_of(durable_, node.id).attempt();
  const int devices = durable_.runs.at(node.id.attempt.run).spec.devices;
  return std::ranges::any_of(alive->second, [&](const auto& rank) {
    return rank.first == attempt && rank.second / devices == node.id.index;
  });
}

std::optional<Time> GroundTruth::time_of(const std::map<model::NodeName, Duration>& times,
                                         const model::NodeName& node) const {
  const auto entry = times.find(node);
  return entry == times.end() ? std::nullopt : std::optional(context_.clock.at(entry->second));
}

void GroundTruth::check_kill(const model::NodeName& name) {
  kill_times_[name] = context_.timeline.now();
  if (!model::has_node(durable_, name)) {
    if (!stoppable_orphans_.contains(name.attempt()))
      context_.report_violation(
          format("{} of another store is killed, and nobody asked for that", text(name)));
    return;
  }
  const model::Attempt* attempt = model::live_attempt(durable_, name.id.attempt.run);
  if (durable_.nodes.at(name.id).state == model::NodeState::released) return;
  const bool goes_on = attempt && name_of(*attempt) == name.attempt() &&
                       attempt->state != model::AttemptState::draining;
  if (goes_on && has_agent(name))
    context_.report_violation(format("{} is killed while its attempt goes on", text(name.id)));
}

// A report sent by an agent that has died since hides the time of its death.
void GroundTruth::report_arrived(const model::NodeReport& report) {
  if (!processes_.contains(report.agent_pid))
    cause_checker_.allow_any_cause(node_of(report).attempt());
  // One sent before a rank was resumed makes it count as stopped until the next report.
  const model::AttemptName attempt = node_of(report).attempt();
  const auto& suspended = suspended_ranks_[attempt];
  for (const model::Rank& rank : report.ranks)
    if (rank.activity == model::Activity::stopped && !suspended.contains(rank.rank))
      cause_checker_.allow_any_cause(attempt);
  times_.report_arrived(report);
}

// Reports of nodes that are gone or given up have no effect.
void GroundTruth::report_accepted(const model::NodeReport& report, Duration arrived) {
  const model::NodeName node = node_of(report);
  report_times_[node] = arrived;
  const auto row = durable_.nodes.find(node.id);
  const bool counts =
      model::has_node(durable_, node) && row->second.state < model::NodeState::released;
  if (counts) times_.report_accepted(report, arrived);
}

// A node of another store continues as without a daemon, unless an operator asks to end it.
void GroundTruth::check_answer(const model::NodeReport& report, const model::Command& command) {
  const model::NodeName node = node_of(report);
  if (command.kind == model::CommandKind::start && told_to_start_.insert(node.attempt()).second)
    check_gang_is_ready(node.attempt());
  const bool ours = model::has_node(durable_, node);
  const bool stops = !ours && command.kind == model::CommandKind::stop &&
                     stoppable_orphans_.contains(node.attempt());
  if (ours == command.orphaned || (!ours && command.kind != model::CommandKind::none && !stops))
    context_.report_violation(format("{}, which is {}, is told to {}{}", text(node),
                                     ours ? "of this store" : "of another store",
                                     text(command.kind), command.orphaned ? " as an orphan" : ""));
}

void GroundTruth::check_commit(std::span<const model::Change> changes) {
  const Commit commit = commit_of(changes);
  if (commit.clock) return transition_checker_.check_clock_change(commit);
  for (const std::string& host : hosts_removed_as_lost(durable_, commit)) declare_lost(host);
  for (const auto& [id, node] : commit.given_up)
    if (!node->gone) give_up({node->generation, id});
  transition_checker_.check_commit(commit);
  preemption_checker_.check(commit);
  host_checker_.check(commit);
  budget_checker_.check(commit);
  placement_checker_.check(commit);
  for (const auto& [id, attempt] : commit.attempts) {
    excuse_cut_off(*attempt);
    excuse_unavailable_hosts(*attempt);
    check_name(commit, *attempt);
    check_preempted(*attempt);
    if (attempt->state == model::AttemptState::ended) check_ended(*attempt);
    if (attempt->state == model::AttemptState::ended && model::is_preemption(attempt->cause))
      ++preemptions_[attempt->id.run];
    if (attempt->state == model::AttemptState::ended && attempt->last_checkpoint_step)
      renewed_retries_[attempt->id.run] += durable_.runs.at(attempt->id.run).spec.rank_loss_retries;
  }
  for (const auto& [id, node] : commit.nodes) {
    if (!durable_.nodes.contains(id)) check_placement(commit, *node);
    if (node->state == model::NodeState::released) check_release(*node);
  }
  for (const auto& [id, run] : commit.runs) check_run(commit, *run);
}

bool GroundTruth::knows_agent(const model::NodeName& name, ProcessId agent) const {
  if (!model::has_node(durable_, name)) return false;
  const model::Node& node = durable_.nodes.at(name.id);
  if (node.state == model::NodeState::released) return false;
  const model::Attempt* attempt = model::live_attempt(durable_, name.id.attempt.run);
  return attempt && attempt->id == name.id.attempt && !node.agents.empty() &&
         node.agents.front().id == format("{}", agent);
}

// The daemon may give up a node that it cannot reach, or not hear in time that its ranks have
// ended, unless so many are silent that it must know that it is cut off.
void GroundTruth::excuse_cut_off(const model::Attempt& attempt) {
  const bool given_up = attempt.cause == model::Cause::node_lost ||
                        attempt.cause == model::Cause::launch_failed ||
                        attempt.cause == model::Cause::timeout;
  if (!given_up || cut_off_.empty() || is_silence_widespread(durable_)) return;
  for (const model::Node* node : model::nodes_of(durable_, attempt.id))
    if (cut_off_.contains(node->host)) return mark_disturbed(name_of(attempt));
}

bool GroundTruth::leads_job(const model::NodeName& name) const {
  const model::Attempt* attempt = model::live_attempt(durable_, name.id.attempt.run);
  return attempt && name_of(*attempt) == name.attempt() && !attempt->is_placed &&
         name.id.index == 0;
}

// A new attempt has a name that never left the daemon, unless an operator adopts it. An adopted
// attempt was launched under that name, and the time that its run had used by then is known.
void GroundTruth::check_name(const Commit& commit, const model::Attempt& attempt) {
  if (durable_.attempts.contains(attempt.id)) return;
  const model::AttemptName name = name_of(attempt);
  const auto launched = launched_.find(name);
  if (!adopts(durable_, commit, attempt.id.run)) {
    disown_unknown_nodes(attempt.id.run);
    if (launched != launched_.end())
      context_.report_violation(text(name) + " is the name of two attempts");
    return;
  }
  if (!adoptable_.contains(attempt.id.run) || launched == launched_.end())
    return context_.report_violation(text(name) + " is adopted, and nobody asked for that");
  adopted_.insert(attempt.id.run);
  const model::Run& run = *commit.runs.at(attempt.id.run);
  if (const Duration left = model::time_left(run);
      launched->second.time_left > left || launched->second.time_left < left - run.extended)
    context_.report_violation(format("{} is adopted with {} left, and had {} when it was launched",
                                     text(name), text(left), text(launched->second.time_left)));
  for (const auto& [id, node] : commit.nodes)
    if (id.attempt == attempt.id && !has_agent({attempt.generation, id})) mark_disturbed(name);
}

// Some of the work of that attempt must be saved on the shared disk.
void GroundTruth::check_preempted(const model::Attempt& attempt) const {
  if (attempt.cause != model::Cause::moved && attempt.cause != model::Cause::paused) return;
  const auto saved = checkpoints_.find(attempt.id.run);
  if (saved == checkpoints_.end() || !checkpoint_writers_.contains(name_of(attempt)))
    context_.report_violation(format("{} is {}, and no checkpoint of it is there", text(attempt.id),
                                     text(attempt.cause)));
}

void GroundTruth::check_ended(const model::Attempt& attempt) const {
  cause_checker_.check(attempt);
  const model::Run& run = durable_.runs.at(attempt.id.run);
  const Duration used = run.time_used + times_.running_time(attempt, run.spec);
  if (attempt.cause == model::Cause::timeout && used < model::time_limit(run))
    context_.report_violation(
        format("{} has ended at its time-out of {}, and all its ranks ran for {}", text(attempt.id),
               text(model::time_limit(run)), text(used)));
}

void GroundTruth::check_run(const Commit& commit, const model::Run& run) {
  if (run.state == model::RunState::succeeded) check_success(run);
  const auto before = durable_.runs.find(run.id);
  const bool known = before != durable_.runs.end();
  const bool adopted = adopts(durable_, commit, run.id);
  const bool resumed =
      known && !adopted && model::is_final(before->second.state) && !model::is_final(run.state);
  if (resumed && !resumable_.contains(run.id))
    context_.report_violation(format("{} had ended, and nobody asked to resume it", text(run.id)));
  if (resumed) stoppable_.erase(run.id);
  if (run.state == model::RunState::cancelled) check_cancelled(commit, run);
  if ((!known && !adopted) || resumed)
    allowed_attempts_[run.id] = (known ? before->second.epoch : 0) + attempts_allowed(run.spec);
  if (const auto most =
          allowed_attempts_[run.id] + preemptions_of(run.id) + renewed_retries_[run.id];
      run.epoch > most)
    context_.report_violation(
        format("{} makes attempt {}, its retries allow {}", text(run.id), run.epoch, most));
}

// Accepted reasons are a stop request and a failed predecessor.
void GroundTruth::check_cancelled(const Commit& commit, const model::Run& run) {
  if (stoppable_.contains(run.id)) return;
  if (!failed_predecessor(CommitView(durable_, commit), run))
    return context_.report_violation(
        format("{} is cancelled, and nobody asked to stop it", text(run.id)));
  mark_disturbed(run.id);
}

void GroundTruth::submission_acknowledged(const model::RunId& run) {
  if (!acknowledged_runs_.insert(run).second)
    context_.report_violation(format("{} is given out twice", text(run)));
  if (!durable_.runs.contains(run))
    return context_.report_violation(
        format("{} was acknowledged, and the store does not have it", text(run)));
  record_folder(run, durable_.runs.at(run).spec.checkpoint_folder);
}

void GroundTruth::resume_requested(const model::RunId& run) {
  resumable_.insert(run);
  disturbed_.insert(run);
}

void GroundTruth::stop_requested(const model::RunId& run) {
  stoppable_.insert(run);
  mark_disturbed(run);
}

void GroundTruth::check_stop_acknowledged(const model::RunId& run) const {
  const model::Run& row = durable_.runs.at(run);
  if (!row.stop_requested && !model::is_final(row.state))
    context_.report_violation(
        format("{} was promised to be stopped and is {}", text(run), text(row.state)));
}

// --- Stores that are replaced ---

// All attempts that were ever launched under the run's name and that the store does not know. The
// daemon may not know yet that they are gone.
void GroundTruth::orphan_stop_requested(const model::RunId& run) {
  for (const auto& [attempt, launched] : launched_)
    if (attempt.id.run == run &&
        !model::has_node(durable_, {attempt.generation, {attempt.id, 0}})) {
      stoppable_orphans_.insert(attempt);
      mark_disturbed(attempt);
    }
}

// The daemon may not have heard of all their nodes.
void GroundTruth::orphan_stop_acknowledged(const model::RunId& run) {
  std::set<model::NodeName> to_stop;
  std::set<model::AttemptName> unknown;
  for (const auto& [id, process] : processes_) {
    if (process.node.attempt.run != run || model::has_node(durable_, process.name())) continue;
    if (durable_.orphans.contains(process.name()))
      to_stop.insert(process.name());
    else
      unknown.insert(process.name().attempt());
  }
  for (const model::NodeName& node : to_stop)
    if (!unknown.contains(node.attempt()))
      orphans_to_stop_.try_emplace(node, context_.timeline.now());
}

// The promises of the replaced store end, unless this store knows of them too. A run that the two
// stores know differently may end differently.
void GroundTruth::store_replaced(const model::State& before) {
  times_.forget_reports();
  orphans_to_stop_.clear();
  // An agent that has reported everything may have met any fault since; this store waits for its
  // report.
  for (const auto& [id, node] : before.nodes)
    if (const model::NodeName name = name_of(before, id);
        has_reported_all_ends(before, name) && !has_reported_all_ends(name))
      cause_checker_.allow_any_cause(name.attempt());
  std::erase_if(acknowledged_runs_,
                [&](const model::RunId& run) { return !durable_.runs.contains(run); });
  for (const auto& [id, attempt] : before.attempts)
    if (attempt.state != model::AttemptState::ended &&
        (attempt.draining || durable_.runs.contains(id.run)))
      if (!same_rows(before, durable_, id.run)) mark_disturbed(name_of(attempt));
  for (const model::RunId& run : durable_.open) {
    if (!same_rows(before, durable_, run)) mark_disturbed(run);
    // An older copy does not know whether an attempt has run and ended since. So its daemon submits
    // none again: what waited to be submitted counts as gone.
    const model::Attempt* attempt = model::live_attempt(durable_, run);
    if (attempt && !launched_.contains(name_of(*attempt)))
      record_fault(name_of(*attempt), {{model::Cause::launch_failed}, "ended before it called"});
    if (durable_.runs.at(run).stop_requested) stoppable_.insert(run);
  }
}

void GroundTruth::check_placement(const Commit& commit, const model::Node& node) const {
  const model::Attempt& attempt = *CommitView(durable_, commit).find(node.id.attempt);
  const auto devices = device_numbers(map_after(durable_, commit), node.host, node.devices);
  for (const auto& [id, process] : processes_)
    if (process.name() != model::NodeName{attempt.generation, node.id} &&
        process.host == node.host && share_a_device(process.devices, devices))
      context_.report_violation(format("{} is given devices on {} on which {} still lives",
                                       text(node.id), node.host, text(process.node)));
}

void GroundTruth::check_release(const model::Node& node) const {
  for (const auto& [id, process] : processes_)
    if (process.name() == name_of(durable_, node.id) && !disowned_.contains(id))
      context_.report_violation(
          format("{} is released while process {} of it lives", text(node.id), id));
}

void GroundTruth::check_success(const model::Run& run) const {
  const auto ended = exited_well_.find(name_of(durable_.attempts.at({run.id, run.epoch})));
  const std::size_t well = ended == exited_well_.end() ? 0 : ended->second.size();
  if (std::cmp_not_equal(well, model::rank_count(run.spec)))
    context_.report_violation(format("{} succeeded, but {} of its {} ranks exited with 0",
                                     text(run.id), well, model::rank_count(run.spec)));
  if (const int steps = program_of(run.spec.command).steps; checkpoint_of(run.id) != steps)
    context_.report_violation(format("{} succeeded after {} of its {} steps", text(run.id),
                                     checkpoint_of(run.id), steps));
}

void GroundTruth::mark_disturbed(const model::RunId& run) {
  disturbed_.insert(run);
  if (const model::Attempt* attempt = model::live_attempt(durable_, run))
    cause_checker_.allow_any_cause(name_of(*attempt));
}

void GroundTruth::mark_disturbed(const model::AttemptName& attempt) {
  disturbed_.insert(attempt.id.run);
  cause_checker_.allow_any_cause(attempt);
}

void GroundTruth::mark_all_disturbed() {
  for (const model::RunId& run : durable_.open) mark_disturbed(run);
}

void GroundTruth::record_fault(const model::AttemptName& attempt, InjectedFault fault) {
  disturbed_.insert(attempt.id.run);
  cause_checker_.record_fault(attempt, std::move(fault));
}

void GroundTruth::check_final_state() const {
  for (const auto& [id, process] : processes_)
    context_.report_violation(
        format("process {} of {} is left on {}", id, text(process.node), process.host));
  for (const model::RunId& run : acknowledged_runs_)
    if (!durable_.runs.contains(run))
      context_.report_violation(format("{} was promised and is not there", text(run)));
  for (const auto& [id, run] : durable_.runs) check_final_run(run);
}

// True if the time-out suffices for the first attempt. Agents count from the start of their ranks;
// a daemon that is away at that moment makes some of the gang wait for the others, maybe for longer
// than that.
bool GroundTruth::timeout_suffices(const model::Run& run) const {
  const auto first = durable_.attempts.find({run.id, 1});
  const auto began = first == durable_.attempts.end() ? gang_starts_.end()
                                                      : gang_starts_.find(name_of(first->second));
  const GangStart beginning = began == gang_starts_.end() ? GangStart{} : began->second;
  if (beginning.ranks % model::rank_count(run.spec) != 0) return false;
  const auto held_up = suspended_time_.find(run.id);
  const Duration waited = beginning.last - beginning.first +
                          (held_up == suspended_time_.end() ? Duration(0) : held_up->second);
  return program_of(run.spec.command).whole_time() + waited + kOverhead < model::time_limit(run);
}

std::int64_t GroundTruth::preemptions_of(const model::RunId& run) const {
  const auto found = preemptions_.find(run);
  return found == preemptions_.end() ? 0 : found->second;
}

// A run without a fault ends as its program does, at the first attempt, whatever happened to the
// daemon.
void GroundTruth::check_final_run(const model::Run& run) const {
  const Program program = program_of(run.spec.command);
  if (disturbed_.contains(run.id) || program.fault != ProgramFault::none) return;
  // A preempted run does some of its work twice.
  const std::int64_t more = preemptions_of(run.id);
  if (more > 0 ? run.state == model::RunState::timed_out : !timeout_suffices(run)) return;
  if (run.state != model::RunState::succeeded || run.epoch != 1 + more)
    context_.report_violation(format("{} met no fault, yet {} in attempt {}: {}", text(run.id),
                                     text(run.state), run.epoch, run.reason));
}

}  // namespace lockstep::sim

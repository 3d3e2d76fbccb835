#include "sim/truth.h"

#include <algorithm>

namespace lockstep::sim {
namespace {

// A clean run may take this much longer than its steps: agents that start, news on their way.
constexpr Duration kOverhead = std::chrono::seconds(20);
// After hang_after: an agent that nobody answers waits a minute before it stops a rank that hangs.
constexpr Duration kFindHang = std::chrono::seconds(90);
// From the signal that asks a rank to end to its end by force.
constexpr Duration kStopTime = std::chrono::seconds(11);

int attempts_allowed(const RunSpec& spec) { return 1 + spec.retries + spec.rank_loss_retries; }

AttemptName attempt_of(const Launch& launch) {
  return {launch.generation, parse_node_id(launch.node).value().attempt};
}

NodeName node_of(const NodeReport& report) { return {report.generation, report.node}; }

// Two stores know the same of the run, but for when its nodes were heard.
bool same_rows(const State& one, const State& other, const RunId& id) {
  const auto a = one.runs.find(id), b = other.runs.find(id);
  if (a == one.runs.end() || b == other.runs.end() || a->second != b->second) return false;
  const auto live = [&](const State& state) { return live_attempt(state, id); };
  if (!live(one) || !live(other)) return live(one) == live(other);
  return *live(one) == *live(other);
}

bool share_a_device(const std::vector<int>& a, const std::vector<int>& b) {
  return std::ranges::any_of(a,
                             [&](int device) { return std::ranges::find(b, device) != b.end(); });
}

}  // namespace

void Truth::process_began(ProcessId id, Process process) {
  for (const auto& [other, theirs] : processes_)
    if (theirs.host == process.host && theirs.name() != process.name() &&
        share_a_device(theirs.devices, process.devices))
      scene_.violate(format("{} starts on {} on devices of {}, which still lives",
                            text(process.node), process.host, text(theirs.node)));
  processes_.emplace(id, std::move(process));
}

void Truth::process_ended(ProcessId id) {
  const auto found = processes_.find(id);
  if (found == processes_.end()) return;
  if (found->second.is_agent) ended_[found->second.name()] = scene_.timeline.now();
  processes_.erase(found);
}

void Truth::rank_began(const AttemptName& attempt, int rank) {
  const Duration now = scene_.timeline.now();
  Beginning& beginning = began_.try_emplace(attempt, Beginning{.first = now}).first->second;
  beginning.last = now;
  ++beginning.ranks;
  times_.rank_began(attempt);
  auto& alive = ranks_[attempt.id.run];
  for (const auto& [other, theirs] : alive)
    if (other != attempt)
      scene_.violate(format("ranks of two attempts of {} run at once: {} and {}",
                            text(attempt.id.run), text(other), text(attempt)));
  if (!alive.emplace(attempt, rank).second)
    scene_.violate(format("rank {} of {} runs twice", rank, text(attempt)));
  check_gang_is_there(attempt);
}

// Another store may have told them, of which this one knows nothing.
void Truth::check_gang_is_there(const AttemptName& attempt) const {
  if (was_adopted(attempt.id.run)) return;
  if (!knows(durable_, {attempt.generation, {attempt.id, 0}})) return;
  for (const Node* node : nodes_of(durable_, attempt.id))
    if (node->address.empty())
      scene_.violate(format("ranks of {} start before {} is ready", text(attempt), text(node->id)));
}

void Truth::rank_ended(const AttemptName& attempt, int rank, RankState state, int code) {
  ranks_[attempt.id.run].erase({attempt, rank});
  if (state == RankState::exited && code == 0) exited_well_[attempt].insert(rank);
  causes_.rank_ended(attempt);
  times_.rank_ended(attempt);
  if (standing_[attempt].erase(rank) > 0) touched_.insert(attempt.id.run);
}

void Truth::rank_stopped(const Launch& launch, int rank, bool has_stepped) {
  const AttemptName attempt = attempt_of(launch);
  standing_[attempt].emplace(rank, scene_.timeline.now());
  const bool watched = has_stepped && launch.hang_after > Duration(0);
  causes_.befalls(attempt, {.causes = {Cause::hung},
                            .who = format("rank {} on host {}", rank, launch.host),
                            .found = watched ? launch.hang_after + kFindHang : Duration::max()});
}

// One that stands still for a moment costs its run that moment and the step under way.
void Truth::rank_continued(const Launch& launch, int rank) {
  const AttemptName attempt = attempt_of(launch);
  const Program program = program_of(launch.command);
  Duration& sum = held_up_[attempt.id.run];
  sum += scene_.timeline.now() - standing_[attempt].at(rank) + 2 * program.step_time;
  standing_[attempt].erase(rank);
  const auto within = [&](Duration limit) { return limit == Duration(0) || sum < limit; };
  if (within(launch.hang_after) && within(program.patience)) return causes_.spare(attempt);
  touched_.insert(attempt.id.run);
  // Of ranks that all make no step the lowest is named, until one is seen to be stopped.
  if (!causes_.is_found(attempt, "is stopped")) causes_.blur(attempt);
}

// --- Agents ---

// In time costs nothing.
void Truth::starts_late(const Launch& launch, Duration late) {
  const NodeId node = parse_node_id(launch.node).value();
  if (late < kStart) return;
  befalls(attempt_of(launch),
          {{Cause::launch_failed}, format("node {} on host {}", node.index, launch.host)});
}

void Truth::has_started_late(const Launch& launch, Duration late) {
  const AttemptName attempt = attempt_of(launch);
  if (late >= kStart && !causes_.is_found(attempt)) touch(attempt);
}

// Of a gang that was whole, that is the time-out.
void Truth::gives_up(const Launch& launch) {
  const AttemptName attempt = attempt_of(launch);
  if (began_.at(attempt).ranks < launch.world_size) befalls(attempt, {{Cause::launch_failed}});
}

void Truth::ran_unattended(const Launch& launch, Duration alone) const {
  if (alone <= kStart + launch.time_left + kStopTime) return;
  scene_.violate(format("a rank of {} ran for {} without a daemon, and had {} left", launch.node,
                        text(alone), text(launch.time_left)));
}

// Nobody may end it any more but by force, nor count on it.
bool Truth::is_given_up(const NodeName& name) const {
  const auto node = durable_.nodes.find(name.id);
  const Attempt* attempt = live_attempt(durable_, name.id.attempt.run);
  if (node == durable_.nodes.end() || !attempt || name_of(*attempt) != name.attempt()) return true;
  return node->second.state >= NodeState::released;
}

void Truth::ends_unasked(const NodeName& id) const {
  if (!is_given_up(id))
    scene_.violate(format("ranks of {} are ended by force, and were not asked to end", text(id)));
}

// Node 0 is where ranks meet, also while they end in order.
void Truth::leaves(const NodeName& id) const {
  if (is_given_up(id)) return;
  for (const Node* node : nodes_of(durable_, id.id.attempt))
    if (!is_given_up({id.generation, node->id}) && has_ranks(*node))
      scene_.violate(format("{} leaves while ranks of {} run", text(id), text(node->id)));
}

bool Truth::has_agent(const NodeName& node) const {
  return std::ranges::any_of(processes_, [&](const auto& entry) {
    return entry.second.name() == node && entry.second.is_agent;
  });
}

std::optional<Time> Truth::agent_ended(const NodeName& node) const {
  return has_agent(node) ? std::nullopt : time_of(ended_, node);
}

bool Truth::has_told_all(const NodeName& name) const { return has_told_all(durable_, name); }

bool Truth::has_told_all(const State& store, const NodeName& name) {
  if (!knows(store, name)) return false;
  const auto found = store.nodes.find(name.id);
  const Node& node = found->second;
  const bool over = std::ranges::none_of(
      node.ranks, [](const Rank& rank) { return rank.state == RankState::running; });
  const bool all = node.ranks.size() == node.devices.size();
  return over && (all || node.state == NodeState::stopping);
}

int Truth::checkpoint_of(const RunId& run) const {
  const auto found = checkpoints_.find(run);
  return found == checkpoints_.end() ? 0 : found->second.first;
}

void Truth::checkpointed(const AttemptName& attempt, int step) {
  auto& [last, writer] = checkpoints_[attempt.id.run];
  if (last > 0 && launched_.at(attempt).order < launched_.at(writer).order)
    scene_.violate(format("{} writes a checkpoint after {} did", text(attempt), text(writer)));
  if (step <= last)
    scene_.violate(
        format("{} commits step {} again: {} steps were safe", text(attempt), step, last));
  last = step;
  writer = attempt;
  writers_.insert(attempt);
}

// Once for each node. Only when the agent went without a word while the daemon was away may a
// second be started: nobody can tell that from a launch that never came to be.
void Truth::launching(const Launch& launch) {
  const NodeName name{launch.generation, parse_node_id(launch.node).value()};
  const NodeId& id = name.id;
  const auto row = durable_.nodes.find(id);
  const Attempt* attempt = live_attempt(durable_, id.attempt.run);
  if (row == durable_.nodes.end() || !attempt || name_of(*attempt) != name.attempt())
    return scene_.violate(format("{} is launched, but its attempt is not live", launch.node));
  if (lives(name)) scene_.violate(format("{} is launched while it is there", launch.node));
  const auto order = static_cast<std::int64_t>(launched_.size());
  Launched& launched =
      launched_.try_emplace(name.attempt(), Launched{.order = order}).first->second;
  launched.time_left = launch.time_left;
  const bool again = !launched.nodes.insert(id.index).second;
  if (again && (row->second.state != NodeState::allocated || words_.contains(name)))
    scene_.violate(format("{} is launched again after it was heard", launch.node));
  causes_.launching(name.attempt());
  give(id.attempt.run, launch.checkpoint_folder);
  const Run& run = durable_.runs.at(id.attempt.run);
  if (const Duration left = run.spec.timeout - run.charged; launch.time_left != left)
    scene_.violate(format("{} is given {}, its run has {} left", launch.node,
                          text(launch.time_left), text(left)));
}

// In its folder another run would find the checkpoints of the first.
void Truth::give(const RunId& run, const std::string& folder) {
  const auto given = given_.emplace(run, folder).first;
  if (given->second != folder)
    scene_.violate(
        format("{} is the name of two runs, in {} and {}", text(run), given->second, folder));
}

bool Truth::lives(const NodeName& node) const {
  return std::ranges::any_of(processes_,
                             [&](const auto& entry) { return entry.second.name() == node; });
}

bool Truth::lives(const AttemptName& attempt) const {
  return std::ranges::any_of(
      processes_, [&](const auto& entry) { return entry.second.name().attempt() == attempt; });
}

// The node is of the store.
bool Truth::has_ranks(const Node& node) const {
  const auto alive = ranks_.find(node.id.attempt.run);
  if (alive == ranks_.end()) return false;
  const AttemptName attempt = name_of(durable_, node.id).attempt();
  const int devices = durable_.runs.at(node.id.attempt.run).spec.devices;
  return std::ranges::any_of(alive->second, [&](const auto& rank) {
    return rank.first == attempt && rank.second / devices == node.id.index;
  });
}

std::optional<Time> Truth::time_of(const std::map<NodeName, Duration>& times,
                                   const NodeName& node) const {
  const auto entry = times.find(node);
  return entry == times.end() ? std::nullopt : std::optional(scene_.clock.at(entry->second));
}

void Truth::killing(const NodeName& name) {
  kills_[name] = scene_.timeline.now();
  if (!knows(durable_, name)) {
    if (!stoppable_orphans_.contains(name.attempt()))
      scene_.violate(
          format("{} of another store is killed, and nobody asked for that", text(name)));
    return;
  }
  const Attempt* attempt = live_attempt(durable_, name.id.attempt.run);
  const bool goes_on =
      attempt && name_of(*attempt) == name.attempt() && attempt->state != AttemptState::draining;
  if (goes_on && has_agent(name))
    scene_.violate(format("{} is killed while its attempt goes on", text(name.id)));
}

// What a dead agent had said before it died hides when it died.
void Truth::said(const NodeReport& report) {
  if (!processes_.contains(report.agent_pid)) causes_.blur(node_of(report).attempt());
  times_.said(report);
}

// Of nodes that are gone or given up, words mean nothing any more.
void Truth::taken(const NodeReport& report, Duration arrived) {
  const NodeName node = node_of(report);
  words_[node] = arrived;
  const auto row = durable_.nodes.find(node.id);
  const bool counts = knows(durable_, node) && row->second.state < NodeState::released;
  if (counts) times_.taken(report, arrived);
}

// A node of another store goes on as if no daemon were there, unless an operator has it end.
void Truth::answered(const NodeReport& report, const Command& command) const {
  const NodeName node = node_of(report);
  const bool ours = knows(durable_, node);
  const bool stops =
      !ours && command.kind == CommandKind::stop && stoppable_orphans_.contains(node.attempt());
  if (ours == command.orphaned || (!ours && command.kind != CommandKind::none && !stops))
    scene_.violate(format("{}, which is {}, is told to {}{}", text(node),
                          ours ? "of this store" : "of another store", text(command.kind),
                          command.orphaned ? " as an orphan" : ""));
}

void Truth::committing(std::span<const Change> changes) {
  const Commit commit = commit_of(changes);
  if (commit.clock) return ledger_.moving(commit);
  ledger_.committing(commit);
  departures_.check(commit);
  for (const auto& [id, attempt] : commit.attempts) {
    check_name(commit, *attempt);
    check_leaving(*attempt);
    if (attempt->state == AttemptState::ended) check_ended(*attempt);
    if (attempt->state == AttemptState::ended && makes_room(attempt->cause))
      ++displaced_[attempt->id.run];
    if (attempt->state == AttemptState::ended && attempt->saved_step)
      renewed_[attempt->id.run] += durable_.runs.at(attempt->id.run).spec.rank_loss_retries;
  }
  for (const auto& [id, node] : commit.nodes) {
    if (!durable_.nodes.contains(id)) check_placement(commit, *node);
    if (node->state == NodeState::released) check_release(*node);
  }
  for (const auto& [id, run] : commit.runs) check_run(commit, *run);
}

// A new one has a name that never left the daemon, unless an operator adopts it: then it was
// launched under that name, and what its run had used up by then is known.
void Truth::check_name(const Commit& commit, const Attempt& attempt) {
  if (durable_.attempts.contains(attempt.id)) return;
  const AttemptName name = name_of(attempt);
  const auto launched = launched_.find(name);
  if (!adopts(durable_, commit, attempt.id.run)) {
    if (launched != launched_.end()) scene_.violate(text(name) + " is the name of two attempts");
    return;
  }
  if (!adoptable_.contains(attempt.id.run) || launched == launched_.end())
    return scene_.violate(text(name) + " is adopted, and nobody asked for that");
  adopted_.insert(attempt.id.run);
  const Run& run = *commit.runs.at(attempt.id.run);
  if (const Duration left = run.spec.timeout - run.charged; launched->second.time_left != left)
    scene_.violate(format("{} is adopted with {} left, and had {} when it was launched", text(name),
                          text(left), text(launched->second.time_left)));
  for (const auto& [id, node] : commit.nodes)
    if (id.attempt == attempt.id && !has_agent({attempt.generation, id})) touch(name);
}

// Of what it did there some is safe on the shared disk.
void Truth::check_leaving(const Attempt& attempt) const {
  if (attempt.cause != Cause::moved && attempt.cause != Cause::paused) return;
  const auto saved = checkpoints_.find(attempt.id.run);
  if (saved == checkpoints_.end() || !writers_.contains(name_of(attempt)))
    scene_.violate(format("{} is {}, and no checkpoint of it is there", text(attempt.id),
                          text(attempt.cause)));
}

void Truth::check_ended(const Attempt& attempt) const {
  causes_.check(attempt);
  const Run& run = durable_.runs.at(attempt.id.run);
  const Duration used = run.charged + times_.time_of(attempt, run.spec);
  if (attempt.cause == Cause::timeout && used < run.spec.timeout)
    scene_.violate(format("{} has ended at its time-out of {}, and all its ranks ran for {}",
                          text(attempt.id), text(run.spec.timeout), text(used)));
}

void Truth::check_run(const Commit& commit, const Run& run) {
  if (run.state == RunState::succeeded) check_success(run);
  const auto before = durable_.runs.find(run.id);
  const bool known = before != durable_.runs.end();
  const bool adopted = adopts(durable_, commit, run.id);
  const bool resumed = known && !adopted && is_final(before->second.state) && !is_final(run.state);
  if (resumed && !resumable_.contains(run.id))
    scene_.violate(format("{} had ended, and nobody asked to resume it", text(run.id)));
  if (resumed) stoppable_.erase(run.id);
  if (run.state == RunState::cancelled) check_cancelled(commit, run);
  if ((!known && !adopted) || resumed)
    granted_[run.id] = (known ? before->second.epoch : 0) + attempts_allowed(run.spec);
  if (const auto most = granted_[run.id] + displaced_of(run.id) + renewed_[run.id];
      run.epoch > most)
    scene_.violate(
        format("{} makes attempt {}, its retries allow {}", text(run.id), run.epoch, most));
}

// Because somebody asked for it, or because what it follows has ended badly.
void Truth::check_cancelled(const Commit& commit, const Run& run) {
  if (stoppable_.contains(run.id)) return;
  if (!failed_predecessor(Rows(durable_, commit), run))
    return scene_.violate(format("{} is cancelled, and nobody asked to stop it", text(run.id)));
  touch(run.id);
}

void Truth::promised(const RunId& run) {
  if (!promised_.insert(run).second) scene_.violate(format("{} is given out twice", text(run)));
  give(run, durable_.runs.at(run).spec.checkpoint_folder);
}

void Truth::asks_to_resume(const RunId& run) {
  resumable_.insert(run);
  touched_.insert(run);
}

void Truth::asks_to_stop(const RunId& run) {
  stoppable_.insert(run);
  touch(run);
}

void Truth::promised_to_stop(const RunId& run) const {
  const Run& row = durable_.runs.at(run);
  if (!row.stop_requested && !is_final(row.state))
    scene_.violate(format("{} was promised to be stopped and is {}", text(run), text(row.state)));
}

// --- Stores that are replaced ---

// All that was ever launched under the run's name and that the store does not know: the daemon may
// not have seen yet that it is gone.
void Truth::asks_to_stop_orphans(const RunId& run) {
  for (const auto& [attempt, launched] : launched_)
    if (attempt.id.run == run && !knows(durable_, {attempt.generation, {attempt.id, 0}})) {
      stoppable_orphans_.insert(attempt);
      touch(attempt);
    }
}

void Truth::promised_to_stop_orphans(const RunId& run) {
  for (const auto& [id, process] : processes_)
    if (process.node.attempt.run == run && !knows(durable_, process.name()))
      orphans_to_stop_.try_emplace(process.name().attempt(), scene_.timeline.now());
}

// What the store that was there before was told, and this one was not, is not promised any more. A
// run of which the two do not know the same may end otherwise than it would have.
void Truth::store_replaced(const State& before) {
  times_.forget_words();
  orphans_to_stop_.clear();
  // An agent that has told all may have met anything since; this store waits for its words.
  for (const auto& [id, node] : before.nodes)
    if (const NodeName name = name_of(before, id);
        has_told_all(before, name) && !has_told_all(name))
      causes_.blur(name.attempt());
  std::erase_if(promised_, [&](const RunId& run) { return !durable_.runs.contains(run); });
  for (const auto& [id, attempt] : before.attempts)
    if (attempt.state != AttemptState::ended &&
        (attempt.draining || durable_.runs.contains(id.run)))
      if (!same_rows(before, durable_, id.run)) touch(name_of(attempt));
  for (const RunId& run : durable_.open) {
    if (!same_rows(before, durable_, run)) touch(run);
    if (durable_.runs.at(run).stop_requested) stoppable_.insert(run);
  }
}

void Truth::check_placement(const Commit& commit, const Node& node) const {
  const Attempt& attempt = *Rows(durable_, commit).find(node.id.attempt);
  for (const auto& [id, process] : processes_)
    if (process.name() != NodeName{attempt.generation, node.id} && process.host == node.host &&
        share_a_device(process.devices, node.devices))
      scene_.violate(format("{} is given devices on {} on which {} still lives", text(node.id),
                            node.host, text(process.node)));
}

void Truth::check_release(const Node& node) const {
  for (const auto& [id, process] : processes_)
    if (process.name() == name_of(durable_, node.id))
      scene_.violate(format("{} is released while process {} of it lives", text(node.id), id));
}

void Truth::check_success(const Run& run) const {
  const auto ended = exited_well_.find(name_of(durable_.attempts.at({run.id, run.epoch})));
  const std::size_t well = ended == exited_well_.end() ? 0 : ended->second.size();
  if (std::cmp_not_equal(well, rank_count(run.spec)))
    scene_.violate(format("{} succeeded, but {} of its {} ranks exited with 0", text(run.id), well,
                          rank_count(run.spec)));
  if (const int steps = program_of(run.spec.command).steps; checkpoint_of(run.id) != steps)
    scene_.violate(format("{} succeeded after {} of its {} steps", text(run.id),
                          checkpoint_of(run.id), steps));
}

void Truth::touch(const RunId& run) {
  touched_.insert(run);
  if (const Attempt* attempt = live_attempt(durable_, run)) causes_.blur(name_of(*attempt));
}

void Truth::touch(const AttemptName& attempt) {
  touched_.insert(attempt.id.run);
  causes_.blur(attempt);
}

void Truth::touch_all() {
  for (const RunId& run : durable_.open) touch(run);
}

void Truth::befalls(const AttemptName& attempt, Blow blow) {
  touched_.insert(attempt.id.run);
  causes_.befalls(attempt, std::move(blow));
}

void Truth::judge_the_end() const {
  for (const auto& [id, process] : processes_)
    scene_.violate(format("process {} of {} is left on {}", id, text(process.node), process.host));
  for (const RunId& run : promised_)
    if (!durable_.runs.contains(run))
      scene_.violate(format("{} was promised and is not there", text(run)));
  for (const auto& [id, run] : durable_.runs) check_end_of(run);
}

// Its time-out suffices for its first attempt. Agents count from when their ranks start; a daemon
// that is away just then keeps some of the gang waiting for the others, maybe for longer than that.
bool Truth::has_time(const Run& run) const {
  const auto first = durable_.attempts.find({run.id, 1});
  const auto began =
      first == durable_.attempts.end() ? began_.end() : began_.find(name_of(first->second));
  const Beginning beginning = began == began_.end() ? Beginning{} : began->second;
  if (beginning.ranks % rank_count(run.spec) != 0) return false;
  const auto held_up = held_up_.find(run.id);
  const Duration waited = beginning.last - beginning.first +
                          (held_up == held_up_.end() ? Duration(0) : held_up->second);
  return program_of(run.spec.command).whole_time() + waited + kOverhead < run.spec.timeout;
}

std::int64_t Truth::displaced_of(const RunId& run) const {
  const auto found = displaced_.find(run);
  return found == displaced_.end() ? 0 : found->second;
}

// Whoever met no fault ends as his program does, at the first attempt, whatever befell the daemon.
void Truth::check_end_of(const Run& run) const {
  const Program program = program_of(run.spec.command);
  if (touched_.contains(run.id) || program.misfortune != Misfortune::none) return;
  // Who had to make room did some of its work twice.
  const std::int64_t more = displaced_of(run.id);
  if (more > 0 ? run.state == RunState::timed_out : !has_time(run)) return;
  if (run.state != RunState::succeeded || run.epoch != 1 + more)
    scene_.violate(format("{} met no fault, yet {} in attempt {}: {}", text(run.id),
                          text(run.state), run.epoch, run.reason));
}

}  // namespace lockstep::sim

#include "sim/world/agent.h"

#include <algorithm>
#include <csignal>

namespace lockstep::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kHeartbeatInterval = seconds(2);
constexpr Duration kOrphanHeartbeatInterval = seconds(5);
constexpr Duration kHeartbeatAfterCommand = milliseconds(50);
constexpr Duration kBackOffFirst = milliseconds(50);
constexpr Duration kBackOffMax = seconds(1);
constexpr Duration kSelfStopDelay = seconds(5);
constexpr Duration kHungSelfStopDelay = std::chrono::minutes(1);
constexpr Duration kCleanupTime = milliseconds(20);
constexpr Duration kCleanupTimeMax = seconds(10);
constexpr Duration kReap = milliseconds(1);
constexpr int kMasterPort = 4000;
constexpr int kRendezvousPort = 5000;

Duration back_off(int failures) {
  return std::min(kBackOffMax, kBackOffFirst * (1 << std::min(failures - 1, 10)));
}

}  // namespace

Agent::Agent(const AgentComponents& components, ProcessId id, engine::LaunchSpec launch,
             OnExit on_exit)
    : components_(components),
      id_(id),
      launch_(std::move(launch)),
      node_(model::parse_node_id(launch_.node).value()),
      clock_{components.context.clock.boot_id(),
             wall_time_at_boot(components.context.clock, components.context.clock)},
      program_(program_of(launch_.command)),
      on_exit_(std::move(on_exit)) {}

template <class Act>
void Agent::schedule(Duration delay, Act act) {
  components_.context.timeline.after(delay, [weak = weak_from_this(), act] {
    if (const auto self = weak.lock()) self->run_unless_suspended(act);
  });
}

void Agent::run_unless_suspended(std::function<void(Agent&)> act) {
  if (phase_ == Phase::exited) return;
  if (suspended_) return deferred_.push_back(std::move(act));
  act(*this);
}

void Agent::suspend() { suspended_ = was_suspended_ = true; }

void Agent::resume() {
  suspended_ = false;
  for (const auto& act : std::exchange(deferred_, {})) run_unless_suspended(act);
  if (phase_ != Phase::exited && !calling_) schedule_heartbeat(Duration(0));
}

std::vector<int> Agent::running_ranks() const {
  std::vector<int> running;
  for (const model::Rank& rank : ranks_)
    if (rank.state == model::RankState::running) running.push_back(rank.local_rank);
  return running;
}

// --- Communication with the daemon ---

void Agent::begin(Duration delay) {
  last_answer_ = components_.context.timeline.now();
  schedule_heartbeat(delay);
}

// Sends a changed report at once, unless a call is in flight or the daemon does not answer.
void Agent::report_status() {
  ++report_version_;
  if (!calling_ && failures_ == 0) send_heartbeat();
}

void Agent::schedule_heartbeat(Duration delay) {
  schedule(delay, [planned = ++heartbeat_plan_](Agent& agent) {
    if (agent.heartbeat_plan_ == planned && !agent.calling_) agent.send_heartbeat();
  });
}

void Agent::send_heartbeat() {
  if (suspended_) return;
  update_steps();
  if (calling_) return;  // the report has been sent already
  calling_ = true;
  version_sent_ = report_version_;
  components_.network.call(
      host(), report(), [weak = weak_from_this()](Result<model::Command> answer) {
        if (const auto self = weak.lock())
          self->run_unless_suspended([answer](Agent& agent) { agent.handle_answer(answer); });
      });
}

void Agent::handle_answer(const Result<model::Command>& answer) {
  calling_ = false;
  if (!answer) return schedule_heartbeat(back_off(++failures_));
  failures_ = 0;
  version_answered_ = version_sent_;
  if (answer->orphaned) return handle_orphan_answer(*answer);
  last_answer_ = components_.context.timeline.now();
  const bool fresh = *answer != command_;
  command_ = *answer;
  if (fresh) components_.context.trace("agent " + launch_.node, "is told: {}", text(command_.kind));
  apply_command(command_);
  if (may_exit()) return exit();
  if (!calling_) schedule_heartbeat(fresh ? kHeartbeatAfterCommand : kHeartbeatInterval);
}

// Continues as without a daemon, unless the command is to stop.
void Agent::handle_orphan_answer(const model::Command& command) {
  if (command.kind == model::CommandKind::stop) {
    command_ = command;
    apply_command(command);
  }
  if (!calling_) schedule_heartbeat(kOrphanHeartbeatInterval);
}

void Agent::apply_command(const model::Command& command) {
  if (starting_) return;
  const bool leave = command.kind == model::CommandKind::leave;
  if (leave && !signalled_ && !running_ranks().empty()) components_.truth.check_forced_end(name());
  if (leave && phase_ < Phase::cleaning_up) kill_ranks();
  if (command.kind == model::CommandKind::start && phase_ == Phase::running) await_other_nodes();
  if (command.kind == model::CommandKind::start && phase_ == Phase::waiting) begin_start();
  if (command.kind == model::CommandKind::none && phase_ == Phase::running) grant_full_time_limit();
  if (command.kind == model::CommandKind::stop) begin_stop(model::StopReason::none, "");
}

// True if every report was answered.
bool Agent::may_exit() const {
  return phase_ == Phase::ended && command_.kind == model::CommandKind::leave &&
         version_answered_ == report_version_;
}

void Agent::exit() {
  components_.context.trace("agent " + launch_.node, "leaves");
  components_.truth.check_agent_exit(name());
  phase_ = Phase::exited;
  on_exit_();
}

model::NodeReport Agent::report() const {
  model::NodeReport report;
  report.node = node_;
  report.generation = launch_.generation;
  report.state = state_;
  report.address = launch_.address;
  report.master_port = kMasterPort;
  report.rendezvous_port = node_.index == 0 ? kRendezvousPort : 0;
  report.agent_pid = id_;
  report.stop_reason = stop_reason_;
  report.message = message_;
  report.ranks = ranks_;
  report.clock = clock_;
  if (node_.index == 0)
    report.last_checkpoint = components_.training.last_checkpoint(name().attempt());
  if (node_.index == 0)
    report.last_checkpoint_step = components_.training.last_checkpoint_step(name().attempt());
  return report;
}

// --- Supervision of its ranks ---

// Updates the progress of the ranks and detects hangs. The daemon decides how to react, unless it
// does not answer.
void Agent::update_steps() {
  const Progress progress = components_.training.progress(name().attempt());
  const bool stalled = progress.step >= 0 && launch_.hang_after > Duration(0) &&
                       progress.since_step >= launch_.hang_after;
  if (phase_ == Phase::running && progress.step >= 0) start_running_time();
  const bool known = has_hung_rank();
  for (model::Rank& rank : ranks_) {
    if (rank.state != model::RankState::running) continue;
    rank.step = progress.step;
    rank.stalled_since.reset();
    if (stalled) rank.stalled_since = wall_time() - progress.since_step;
  }
  if (has_hung_rank() != known) update_activity();
  if (phase_ == Phase::running && has_hung_rank() && time_until_self_stop() <= Duration(0))
    begin_stop(model::StopReason::no_progress, "a rank hangs, and the daemon does not answer");
}

bool Agent::has_hung_rank() const {
  return std::ranges::any_of(ranks_, [](const model::Rank& rank) {
    return rank.state == model::RankState::running && rank.stalled_since.has_value();
  });
}

// The limit while a rank hangs and the daemon does not answer.
Duration Agent::time_until_self_stop() const {
  return last_answer_ + std::min(launch_.hang_after, kHungSelfStopDelay) -
         components_.context.timeline.now();
}

void Agent::update_activity() {
  for (int local : running_ranks())
    ranks_.at(static_cast<std::size_t>(local)).activity =
        suspended_ranks_.contains(local) ? model::Activity::stopped : model::Activity::sleeping;
  if (on_suspended_rank_seen_ && !suspended_ranks_.empty())
    std::exchange(on_suspended_rank_seen_, {})();
}

// --- Its ranks ---

// Runs once. Commands that arrive meanwhile are applied when the ranks run.
void Agent::begin_start() {
  if (start_delay_ == Duration(0)) return start_ranks();
  starting_ = true;
  components_.context.trace("agent " + launch_.node, "takes {} to start its ranks",
                            text(start_delay_));
  components_.truth.start_delayed(launch_, start_delay_);
  schedule(start_delay_, [](Agent& agent) {
    agent.starting_ = false;
    agent.components_.truth.delayed_start_done(agent.launch_, agent.start_delay_);
    agent.start_ranks();
    agent.apply_command(agent.command_);
  });
}

void Agent::start_ranks() {
  phase_ = Phase::running;
  started_ = components_.context.timeline.now();
  state_ = model::NodeState::running;
  components_.context.trace("agent " + launch_.node, "starts {} ranks", launch_.devices.size());
  for (int local = 0; local < static_cast<int>(launch_.devices.size()); ++local) {
    model::Rank& rank = ranks_.emplace_back();
    rank.rank = launch_.first_rank + local;
    rank.local_rank = local;
    components_.truth.rank_began(name().attempt(), rank.rank);
  }
  for (const model::Rank& rank : ranks_)
    components_.training.join(
        name().attempt(), rank.rank, launch_.world_size, program_,
        [this, local = rank.local_rank](RankEnd how) { end_rank(local, how); });
  await_other_nodes();
  if (launch_.nodes == 1) start_running_time();
  report_status();
}

// Restarts the wait at each `start`: after the last one, all ranks run within the limit or never.
void Agent::await_other_nodes() {
  if (!running_time_end_)
    set_timeout_at(components_.context.timeline.now() + launch_.start_limit + launch_.time_left);
}

// Called once all nodes' ranks run, as the daemon reports or their steps show. The running time
// starts no later than the end of the wait for them. Repeated calls have no effect.
void Agent::start_running_time() {
  if (!running_time_end_)
    running_time_end_ = components_.context.timeline.now() + launch_.time_left;
  set_timeout_at(std::min(timeout_at_, *running_time_end_));
}

// The daemon reports that all run: the run gets its full time limit, however late its ranks
// started.
void Agent::grant_full_time_limit() {
  start_running_time();
  set_timeout_at(*running_time_end_);
}

void Agent::set_timeout_at(Duration moment) {
  if (moment == timeout_at_) return;
  timeout_at_ = moment;
  schedule(moment - components_.context.timeline.now(), [planned = ++timeout_plan_](Agent& agent) {
    if (agent.phase_ != Phase::running || agent.timeout_plan_ != planned) return;
    if (!agent.running_time_end_) agent.components_.truth.start_wait_timed_out(agent.launch_);
    agent.begin_stop(model::StopReason::timeout, "time-out");
  });
}

// Repeated calls have no effect.
void Agent::begin_stop(model::StopReason reason, std::string message) {
  if (state_ == model::NodeState::stopping) return;
  state_ = model::NodeState::stopping;
  stop_reason_ = reason;
  message_ = std::move(message);
  if (phase_ == Phase::running) {
    phase_ = Phase::stopping;
    signal_ranks(SIGTERM, program_.stop_time);
    schedule(model::kGracePeriod, [](Agent& agent) {
      if (agent.phase_ == Phase::stopping) agent.kill_ranks();
    });
  } else if (phase_ == Phase::waiting) {
    handle_ended_ranks();
  }
  report_status();
}

void Agent::kill_ranks() {
  phase_ = Phase::stopping;
  signal_ranks(SIGKILL, kReap);
  handle_ended_ranks();
}

void Agent::signal_ranks(int signal, Duration delay) {
  if (!std::exchange(signalled_, true)) update_activity();
  for (int local : running_ranks())
    components_.context.timeline.after(delay, [weak = weak_from_this(), local, signal] {
      if (const auto self = weak.lock())
        self->end_rank(local, {.state = model::RankState::killed, .code = signal});
    });
}

void Agent::kill_rank(int local_rank, int signal) {
  end_rank(local_rank, {.state = model::RankState::killed, .code = signal});
}

void Agent::cut_connection(int local_rank, int from) {
  components_.training.cut_connection(name().attempt(), launch_.first_rank + local_rank, from);
}

void Agent::suspend_rank(int local_rank) {
  const model::Rank& rank = ranks_.at(static_cast<std::size_t>(local_rank));
  if (rank.state != model::RankState::running ||
      !suspended_ranks_.emplace(local_rank, std::nullopt).second)
    return;
  const bool has_stepped = components_.training.progress(name().attempt()).step >= 0;
  components_.truth.rank_suspended(launch_, rank.rank, has_stepped);
  components_.training.suspend(name().attempt(), rank.rank);
}

void Agent::resume_rank(int local_rank) {
  const auto standing = suspended_ranks_.find(local_rank);
  if (standing == suspended_ranks_.end()) return;
  const auto end = standing->second;
  suspended_ranks_.erase(standing);
  const int rank = ranks_.at(static_cast<std::size_t>(local_rank)).rank;
  components_.truth.rank_resumed(launch_, rank);
  components_.training.resume(name().attempt(), rank);
  if (end) end_rank(local_rank, *end);
}

void Agent::end_rank(int local_rank, RankEnd how) {
  model::Rank& rank = ranks_.at(static_cast<std::size_t>(local_rank));
  if (rank.state != model::RankState::running) return;
  const bool by_force = how.state == model::RankState::killed && how.code == SIGKILL;
  if (const auto standing = suspended_ranks_.find(local_rank); standing != suspended_ranks_.end()) {
    if (!by_force && !standing->second) standing->second = how;
    if (!by_force) return;
    suspended_ranks_.erase(standing);
  }
  rank.state = how.state;
  rank.code = how.code;
  rank.signalled_by_agent = signalled_;
  rank.fault = how.fault;
  rank.fault_rank = how.fault_rank;
  rank.ended = wall_time();
  if (!signalled_) rank.stalled_since.reset();
  const bool well = how.state == model::RankState::exited && how.code == 0;
  components_.context.trace("agent " + launch_.node, "rank {} {} {}{}", rank.rank, text(how.state),
                            how.code, signalled_ ? " after a signal of ours" : "");
  components_.truth.rank_ended(name().attempt(), rank.rank, how.state, how.code);
  if (!was_suspended_)
    components_.truth.check_unattended_time(
        launch_, components_.context.timeline.now() - std::max(started_, last_answer_));
  components_.training.leave(name().attempt(), rank.rank, well);
  if (!well && !signalled_) update_activity();
  if (!well && !signalled_ && !std::exchange(rank_failed_, true))
    schedule(kSelfStopDelay, [](Agent& agent) {
      if (agent.phase_ == Phase::running) agent.begin_stop(model::StopReason::none, "");
    });
  handle_ended_ranks();
  report_status();
}

// The agent clears up the remains of its ranks before it reports the end.
void Agent::handle_ended_ranks() {
  if (phase_ >= Phase::cleaning_up || !running_ranks().empty()) return;
  phase_ = Phase::cleaning_up;
  const bool resists = on_cleanup_ && !ranks_.empty();
  if (resists) std::exchange(on_cleanup_, {})();
  schedule(resists ? kCleanupTimeMax : kCleanupTime, [](Agent& agent) {
    agent.phase_ = Phase::ended;
    agent.report_status();
  });
}

bool Agent::has_children() const {
  return !running_ranks().empty() || (phase_ == Phase::cleaning_up && !ranks_.empty());
}

void Agent::kill() {
  phase_ = Phase::exited;
  suspended_ranks_.clear();
  for (model::Rank& rank : ranks_) {
    if (rank.state != model::RankState::running) continue;
    rank.state = model::RankState::killed;
    components_.truth.rank_ended(name().attempt(), rank.rank, model::RankState::killed, SIGKILL);
    components_.training.leave(name().attempt(), rank.rank, false);
  }
}

}  // namespace lockstep::sim

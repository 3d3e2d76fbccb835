#include "platform/agent/core/step.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <utility>

#include "base/format.h"

namespace lockstep::agent {
namespace {

using model::CommandKind;
using model::NodeState;
using model::StopReason;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr Duration kUnattendedStopDelay = seconds(5);
constexpr int kRankRestartsMax = 3;  // of all ranks of a node; then they stay down
constexpr Duration kUnattendedHangLimit = minutes(1);
constexpr Duration kKillRetryInterval = milliseconds(100);
constexpr Duration kActivityCheckInterval = seconds(2);
constexpr Duration kLeftoverCheckInterval = milliseconds(20);
constexpr Duration kLeftoverTimeMax = seconds(10);
constexpr Duration kExitWaitMax = hours(24);
constexpr Duration kLastItemsMax = minutes(5);
// After the lease and the grace period. The daemon allows a minute (kLeaseMargin).
constexpr Duration kLeaseExitMax = seconds(30);

class Step {
 public:
  Step(AgentState& state, Duration now) : state_(state), now_(now) {}
  Effects take_effects() { return std::move(effects_); }

  void handle(const CommandReceived& event);
  void handle(const EnvironmentPrepared& event);
  void handle(const RanksStarted& event);
  void handle(const RankRestarted& event);
  void handle(const RestartFailed& event);
  void handle(const RanksEnded& event);
  void handle(const RanksChecked& event);
  void handle(const ProgressReported& event);
  void handle(const FaultReported& event);
  void handle(const FaultPrinted& event) { state_.ranks.record_printed_fault(event, now_); }
  void handle(const LeftoversChecked& event);
  void handle(const AgentSignalled& event);
  void handle(const TimePassed& event);

 private:
  bool passed(const std::optional<Duration>& moment) const { return moment && now_ >= *moment; }
  void add(Effect effect) { effects_.push_back(std::move(effect)); }
  void log(LogLevel level, std::string text) { add(WriteLog{level, std::move(text)}); }
  void clear_run_deadlines();

  void check_preparation();
  void await_other_nodes();
  void start_running_time();
  void grant_full_time_limit();
  void set_time_left(Duration time_left);
  void send_limit_signal();
  void begin_stop(StopReason reason, std::string message);
  void kill_ranks();
  void signal_ranks(int signal);
  void restart_rank(const model::Rank& rank);
  void finish_restart();
  void handle_ends();
  void report_killed();
  bool failure_ends_all() const;
  void begin_cleanup();
  void check_progress(Duration since_answer);
  void check_lease(Duration since_contact);
  void check_exit(bool all_delivered);

  AgentState& state_;
  const Duration now_;
  Effects effects_;
};

void Step::clear_run_deadlines() {
  state_.time_out.reset();
  state_.unattended_stop.reset();
}

// --- Commands ---

void Step::handle(const CommandReceived& event) {
  const model::Command& command = event.command;
  state_.command = command.kind;
  state_.refused = event.refused;
  const bool leave = event.refused || command.kind == CommandKind::leave;
  if (leave && !std::exchange(state_.leave_ordered, true)) state_.exit_limit = now_ + kLastItemsMax;
  if (leave && state_.phase < Phase::cleaning_up) return kill_ranks();
  if (command.kind == CommandKind::start || command.kind == CommandKind::stop)
    state_.grace = command.grace;
  if (command.time_left && *command.time_left > Duration(0)) set_time_left(*command.time_left);
  if (command.kind == CommandKind::start && state_.phase == Phase::running) await_other_nodes();
  if (command.kind == CommandKind::start && state_.phase == Phase::waiting)
    add(StartRanks{command});
  if (command.kind == CommandKind::none && state_.phase == Phase::running) grant_full_time_limit();
  if (command.kind == CommandKind::stop) begin_stop(StopReason::none, "");
}

void Step::handle(const AgentSignalled& event) {
  log(LogLevel::warning, format("the agent got signal {}", event.signal));
  begin_stop(StopReason::signal, format("the agent was asked to end by signal {}", event.signal));
}

// --- The environment ---

void Step::handle(const EnvironmentPrepared& event) {
  if (state_.phase != Phase::preparing) return;
  if (event.error.empty()) {
    state_.phase = Phase::waiting;
    state_.node_state = NodeState::ready;
    log(LogLevel::info, "the environment is prepared");
    return add(ReportStatus{});
  }
  state_.message = event.error;
  log(LogLevel::error, state_.message);
  state_.node_state = NodeState::stopping;
  if (event.is_missing) state_.stop_reason = StopReason::no_environment;
  kill_ranks();
}

// It ends early enough for its reason to reach the daemon before the start limit does.
void Step::check_preparation() {
  const Duration most = state_.settings.start_limit * 9 / 10;
  if (!state_.preparation_limit) state_.preparation_limit = now_ + most;
  if (passed(state_.preparation_limit))
    handle(EnvironmentPrepared{
        .error = format("preparing the environment takes longer than {}", text(most))});
}

// --- The start, and the running time ---

void Step::handle(const RanksStarted& event) {
  for (std::int64_t pid : event.pids) state_.ranks.add(pid);
  if (!event.error.empty()) {
    state_.message =
        format("rank {}: {}", state_.settings.first_rank + std::ssize(event.pids), event.error);
    log(LogLevel::error, state_.message);
    state_.node_state = NodeState::stopping;
    if (event.is_missing) state_.stop_reason = StopReason::no_environment;
    return kill_ranks();
  }
  state_.phase = Phase::running;
  state_.node_state = NodeState::running;
  state_.next_activity_check = now_;
  await_other_nodes();
  if (state_.settings.nodes == 1) start_running_time();
  log(LogLevel::info, format("started {} ranks", event.pids.size()));
  add(ReportStatus{});
}

// While the daemon sends `start`, some ranks of other nodes do not run yet. If it goes away, its
// last `start` is the last that any node received, and ranks start within the start limit. After
// that either all run, or some never will. Nodes then must not wait forever only because the daemon
// does not count their time.
void Step::await_other_nodes() {
  const AgentSettings& node = state_.settings;
  if (state_.running_end || node.time_left <= Duration(0)) return;
  state_.time_out = now_ + node.start_limit + node.time_left;
}

// Starts the running time when all nodes' ranks run, as the daemon counts it. If the daemon goes
// away after only some nodes got `start`, the run loses no time. If it goes away before it could
// send `none`, the first report of a rank starts the time: a rank that makes steps has its peers.
// Peers that come after their start limit do not extend the wait limit while no daemon could end
// them. Repeated calls have no effect.
void Step::start_running_time() {
  if (state_.settings.time_left <= Duration(0)) return;
  if (!state_.running_end) state_.running_end = now_ + state_.settings.time_left;
  if (!state_.time_out || *state_.running_end < *state_.time_out)
    state_.time_out = state_.running_end;
}

// The daemon is there and all nodes' ranks run: they have their whole time limit, however late they
// started.
void Step::grant_full_time_limit() {
  start_running_time();
  state_.time_out = state_.running_end;
}

// A user has extended the run. Repeated calls have no effect.
void Step::set_time_left(Duration time_left) {
  const Duration change = time_left - std::exchange(state_.settings.time_left, time_left);
  if (change == Duration(0)) return;
  if (state_.running_end) *state_.running_end += change;
  if (state_.time_out) *state_.time_out += change;
  state_.has_sent_signal = false;
  log(LogLevel::info,
      format("the time limit is now {} after the start of the attempt", text(time_left)));
}

// The ranks go on: their program decides what it does.
void Step::send_limit_signal() {
  const model::LimitSignal& signal = *state_.settings.signal;
  state_.has_sent_signal = true;
  log(LogLevel::info, format("signal {} to the ranks, {} before their time limit", signal.number,
                             text(signal.before)));
  add(SignalRanks{signal.number});
}

// --- The end of ranks ---

// Repeated calls have no effect. message: the reason, for users; empty if a command requested the
// stop.
void Step::begin_stop(StopReason reason, std::string message) {
  if (state_.phase >= Phase::stopping && state_.node_state == NodeState::stopping) return;
  state_.node_state = NodeState::stopping;
  state_.stop_reason = reason;
  if (!message.empty()) state_.message = std::move(message);
  clear_run_deadlines();
  if (state_.phase == Phase::running) {
    state_.phase = Phase::stopping;
    log(LogLevel::info,
        format("stopping the ranks{}{}", state_.message.empty() ? "" : ": ", state_.message));
    state_.next_kill = now_ + state_.grace;
    signal_ranks(SIGTERM);
  } else if (state_.phase <= Phase::waiting) {
    begin_cleanup();
  }
  add(ReportStatus{});
}

// Kills at once, and repeats for processes that were forked meanwhile.
void Step::kill_ranks() {
  clear_run_deadlines();
  state_.phase = Phase::stopping;
  state_.next_kill = now_ + kKillRetryInterval;
  if (state_.ranks.any_running())
    signal_ranks(SIGKILL);
  else
    begin_cleanup();
  add(ReportStatus{});
}

// Ranks are checked before their first signal: it changes what their processes do, and a rank that
// ended before has not ended by it.
void Step::signal_ranks(int signal) {
  if (state_.ranks.is_signalled()) return add(SignalRanks{signal});
  state_.next_signal = signal;
  add(CheckRanks{});
}

void Step::handle(const RanksChecked& event) {
  if (state_.ranks.is_signalled()) return;
  const bool changed = state_.ranks.update_activities(event.activities);
  const bool idles = state_.idle_watch.observe(event.cpu_time, now_);
  if (state_.phase == Phase::running && (changed || idles)) add(ReportStatus{});
  if (state_.phase != Phase::stopping || state_.next_signal == 0) return;
  state_.ranks.record_signal();
  add(SignalRanks{state_.next_signal});
}

void Step::handle(const RanksEnded& event) {
  for (const RankEnd& end : event.ends) {
    state_.ranks.record_end(end, now_);
    const model::Rank& rank = state_.ranks.at(end.local_rank);
    log(LogLevel::info,
        format("rank {} {} {}{}", rank.rank,
               rank.state == model::RankState::killed ? "was killed by signal" : "exited with",
               rank.code, end.out_of_memory ? ", out of memory" : ""));
    if (model::ended_badly(rank) && state_.phase == Phase::running && !state_.has_logged_failure) {
      state_.has_logged_failure = true;
      add(LogLastLines{end.local_rank});
    }
    const bool killed = model::ended_badly(rank) && rank.state == model::RankState::killed;
    const bool waits = state_.settings.on_failure == model::OnFailure::wait;
    if (killed && waits && state_.phase == Phase::running && state_.restarts < kRankRestartsMax)
      restart_rank(rank);
  }
  if (state_.restarts_in_progress == 0) handle_ends();
}

// The other ranks wait for it, so the rank stays `running` for the daemon.
void Step::restart_rank(const model::Rank& rank) {
  ++state_.restarts;
  ++state_.restarts_in_progress;
  const auto description = format(
      "rank {} was killed by signal {} and is started again (restart {} of "
      "at most {} on its host)",
      rank.rank, rank.code, state_.restarts, kRankRestartsMax);
  log(LogLevel::warning, description);
  add(AddEvent{rank.rank, description});
  add(AddLogLine{rank.rank, "lockstep: " + description});
  add(RestartRank{rank.local_rank});
}

void Step::handle(const RankRestarted& event) {
  state_.ranks.record_restart(event.local_rank, event.pid);
  finish_restart();
}

void Step::handle(const RestartFailed& event) {
  log(LogLevel::error, format("rank {}: {}", state_.ranks.at(event.local_rank).rank, event.error));
  finish_restart();
}

void Step::finish_restart() {
  if (--state_.restarts_in_progress == 0) handle_ends();
}

// Some ranks have ended.
void Step::handle_ends() {
  if (state_.phase == Phase::running && state_.ranks.any_ended_badly()) {
    if (state_.settings.on_failure != model::OnFailure::restart) report_killed();
    if (!state_.unattended_stop && failure_ends_all())
      state_.unattended_stop = now_ + kUnattendedStopDelay;
    if (state_.ranks.any_running()) add(CheckRanks{});
  }
  if (state_.phase < Phase::cleaning_up && !state_.ranks.any_running()) begin_cleanup();
  add(ReportStatus{});
}

// If the run ends with the rank, the cause of its attempt reports it instead.
void Step::report_killed() {
  for (const model::Rank& rank : state_.ranks.all()) {
    if (!model::ended_badly(rank) || rank.state != model::RankState::killed) continue;
    if (!state_.killed_ranks.insert(rank.local_rank).second) continue;
    add(AddEvent{rank.rank, format("rank {} was killed by signal {}", rank.rank, rank.code)});
    add(NotifyPeers{rank.rank});
  }
}

// True if the failure of a rank ends all ranks. With OnFailure::shrink the others continue without
// a killed one while any of them runs.
bool Step::failure_ends_all() const {
  if (state_.settings.on_failure == model::OnFailure::shrink) return state_.ranks.any_failed();
  return state_.ranks.any_ended_badly();
}

// --- Reports of ranks ---

void Step::handle(const ProgressReported& event) {
  state_.ranks.record_progress(event, now_);
  if (state_.idle_watch.record_use()) add(ReportStatus{});
  if (state_.phase == Phase::running) start_running_time();
}

void Step::handle(const FaultReported& event) {
  if (!state_.ranks.record_fault(event)) return;
  log(LogLevel::warning, format("rank {} reports {}: {}", state_.ranks.at(event.local_rank).rank,
                                name_of(event.fault), event.text));
}

// --- Time ---

void Step::handle(const TimePassed& event) {
  if (state_.phase == Phase::preparing) check_preparation();
  if (passed(limit_signal_at(state_))) send_limit_signal();
  if (passed(state_.time_out)) begin_stop(StopReason::timeout, "time-out");
  if (passed(state_.unattended_stop)) begin_stop(StopReason::none, "");
  check_lease(event.since_contact);
  if (state_.phase == Phase::stopping && passed(state_.next_kill)) kill_ranks();
  if (state_.phase == Phase::cleaning_up && passed(state_.next_leftover_check)) {
    if (!state_.leftover_limit) state_.leftover_limit = now_ + kLeftoverTimeMax;
    state_.next_leftover_check = now_ + kLeftoverCheckInterval;
    add(KillLeftovers{});
  }
  if (state_.phase == Phase::running) check_progress(event.since_answer);
  if (state_.phase == Phase::running && passed(state_.next_activity_check)) {
    state_.next_activity_check = now_ + kActivityCheckInterval;
    add(CheckRanks{});
  }
  if (state_.phase == Phase::ended) check_exit(event.all_delivered);
}

// The daemon decides about a rank that hangs. While it is away, the agent stops the ranks, so that
// they do not hold devices for nothing.
void Step::check_progress(Duration since_answer) {
  const bool changed = state_.ranks.update_stalled(now_);
  const model::Rank* rank = state_.ranks.first_stalled();
  if (changed) {
    if (rank != nullptr)
      log(LogLevel::warning, format("rank {} has reported nothing for {}", rank->rank,
                                    text(state_.settings.hang_after)));
    add(CheckRanks{});
    add(ReportStatus{});
  }
  if (rank == nullptr || since_answer < std::min(state_.settings.hang_after, kUnattendedHangLimit))
    return;
  begin_stop(StopReason::no_progress,
             format("rank {} has made no progress since step {}, and the daemon does not answer",
                    rank->rank, rank->step));
}

// The daemon takes the node for gone, and starts the run elsewhere. So nothing of it may be left,
// even if the daemon hears nothing of its end. Ranks that have ended by then hold no devices, and
// their agent waits to deliver their results.
void Step::check_lease(Duration since_contact) {
  const Duration lease = state_.settings.lease;
  state_.lease_end.reset();
  if (lease <= Duration(0) || state_.phase >= Phase::stopping) return;
  state_.lease_end = now_ - since_contact + lease;
  if (!passed(state_.lease_end)) return;
  begin_stop(StopReason::none,
             format("no call has reached the daemon for {}, its lease", text(lease)));
  state_.exit_limit = now_ + state_.grace + kLeaseExitMax;
}

// --- The end of the agent ---

void Step::begin_cleanup() {
  clear_run_deadlines();
  state_.phase = Phase::cleaning_up;
  state_.next_kill.reset();
  state_.next_leftover_check = now_;
}

// Twice in a row nothing may be left: a process whose parent ends during a check may be missing.
void Step::handle(const LeftoversChecked& event) {
  const bool nothing_now = event.pids.empty() && event.streams_closed;
  const bool nothing_before = std::exchange(state_.no_leftovers, nothing_now);
  if (!passed(state_.leftover_limit) && !(nothing_now && nothing_before)) return;
  if (!event.pids.empty()) {
    const auto description = "processes do not end: " + joined(event.pids, " ");
    log(LogLevel::error, description);
    state_.message += (state_.message.empty() ? "" : "; ") + description;
  }
  state_.next_leftover_check.reset();
  state_.phase = Phase::ended;
  if (!state_.exit_limit) state_.exit_limit = now_ + kExitWaitMax;
  add(FinishStreams{});
  add(ReportStatus{});
}

void Step::check_exit(bool all_delivered) {
  const bool delivered = state_.command == CommandKind::leave && all_delivered;
  if (state_.refused || delivered || passed(state_.exit_limit)) add(Exit{});
}

}  // namespace

Effects step(AgentState& state, const Event& event, Duration now) {
  Step one(state, now);
  std::visit([&](const auto& each) { one.handle(each); }, event);
  return one.take_effects();
}

std::optional<Duration> limit_signal_at(const AgentState& state) {
  if (!state.settings.signal || !state.running_end || state.has_sent_signal ||
      state.phase != Phase::running)
    return std::nullopt;
  return *state.running_end - state.settings.signal->before;
}

std::optional<Duration> next_deadline(const AgentState& state, Duration now) {
  std::optional<Duration> next;
  const auto add = [&](const std::optional<Duration>& moment) {
    if (moment) next = std::min(*moment, next.value_or(*moment));
  };
  if (state.phase == Phase::preparing) add(state.preparation_limit);
  add(state.time_out);
  add(limit_signal_at(state));
  add(state.unattended_stop);
  if (state.phase == Phase::stopping) add(state.next_kill);
  if (state.phase == Phase::cleaning_up) add(state.next_leftover_check);
  if (state.phase < Phase::stopping) add(state.lease_end);
  if (state.phase == Phase::ended) add(state.exit_limit);
  if (state.phase != Phase::running) return next;
  add(state.next_activity_check);
  if (const auto stall = state.ranks.next_stall(now)) add(now + *stall);
  return next;
}

}  // namespace lockstep::agent

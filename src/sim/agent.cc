#include "sim/agent.h"

#include <algorithm>
#include <csignal>

namespace lockstep::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kPace = seconds(2);
constexpr Duration kOrphanPace = seconds(5);
constexpr Duration kObey = milliseconds(50);
constexpr Duration kBackOffFirst = milliseconds(50);
constexpr Duration kBackOffMost = seconds(1);
constexpr Duration kStopAlone = seconds(5);
constexpr Duration kHungAlone = std::chrono::minutes(1);
constexpr Duration kClear = milliseconds(20);
constexpr Duration kClearMost = seconds(10);
constexpr Duration kReap = milliseconds(1);
constexpr int kMasterPort = 4000;
constexpr int kRendezvousPort = 5000;

Duration back_off(int failures) {
  return std::min(kBackOffMost, kBackOffFirst * (1 << std::min(failures - 1, 10)));
}

}  // namespace

Agent::Agent(const World& world, ProcessId id, Launch launch, Left left)
    : world_(world),
      id_(id),
      launch_(std::move(launch)),
      node_(parse_node_id(launch_.node).value()),
      clock_{world.scene.clock.boot(), zero_of(world.scene.clock, world.scene.clock)},
      program_(program_of(launch_.command)),
      left_(std::move(left)) {}

template <class Act>
void Agent::later(Duration delay, Act act) {
  world_.scene.timeline.after(delay, [weak = weak_from_this(), act] {
    if (const auto self = weak.lock()) self->do_now(act);
  });
}

void Agent::do_now(std::function<void(Agent&)> act) {
  if (phase_ == Phase::gone) return;
  if (stands_still_) return missed_.push_back(std::move(act));
  act(*this);
}

void Agent::stand_still() { stands_still_ = stood_still_ = true; }

void Agent::go_on() {
  stands_still_ = false;
  for (const auto& act : std::exchange(missed_, {})) do_now(act);
  if (phase_ != Phase::gone && !calling_) plan_call(Duration(0));
}

std::vector<int> Agent::running_ranks() const {
  std::vector<int> running;
  for (const Rank& rank : ranks_)
    if (rank.state == RankState::running) running.push_back(rank.local_rank);
  return running;
}

// --- Talking ---

void Agent::begin(Duration delay) {
  answered_ = world_.scene.timeline.now();
  plan_call(delay);
}

// News are sent at once, unless a call is under way or the daemon is away.
void Agent::tell() {
  ++version_;
  if (!calling_ && failures_ == 0) call();
}

void Agent::plan_call(Duration delay) {
  later(delay, [planned = ++planned_](Agent& agent) {
    if (agent.planned_ == planned && !agent.calling_) agent.call();
  });
}

void Agent::call() {
  if (stands_still_) return;
  watch();
  if (calling_) return;  // what was seen is told already
  calling_ = true;
  sent_ = version_;
  world_.network.call(host(), report(), [weak = weak_from_this()](Result<Command> answer) {
    if (const auto self = weak.lock()) self->do_now([answer](Agent& agent) { agent.hear(answer); });
  });
}

void Agent::hear(const Result<Command>& answer) {
  calling_ = false;
  if (!answer) return plan_call(back_off(++failures_));
  failures_ = 0;
  known_ = sent_;
  if (answer->orphaned) return hear_as_orphan(*answer);
  answered_ = world_.scene.timeline.now();
  const bool fresh = *answer != orders_;
  orders_ = *answer;
  if (fresh) world_.scene.tell("agent " + launch_.node, "is told: {}", text(orders_.kind));
  obey(orders_);
  if (may_leave()) return leave();
  if (!calling_) plan_call(fresh ? kObey : kPace);
}

// As if no daemon were there, unless it is to stop.
void Agent::hear_as_orphan(const Command& command) {
  if (command.kind == CommandKind::stop) {
    orders_ = command;
    obey(command);
  }
  if (!calling_) plan_call(kOrphanPace);
}

void Agent::obey(const Command& command) {
  if (starting_) return;
  const bool leave = command.kind == CommandKind::leave;
  if (leave && !signalled_ && !running_ranks().empty()) world_.truth.ends_unasked(name());
  if (leave && phase_ < Phase::clearing) make_end();
  if (command.kind == CommandKind::start && phase_ == Phase::running) await_other_nodes();
  if (command.kind == CommandKind::start && phase_ == Phase::waiting) begin_start();
  if (command.kind == CommandKind::none && phase_ == Phase::running) grant_running_time();
  if (command.kind == CommandKind::stop) begin_stop(StopReason::none, "");
}

// Everything is told.
bool Agent::may_leave() const {
  return phase_ == Phase::ended && orders_.kind == CommandKind::leave && known_ == version_;
}

void Agent::leave() {
  world_.scene.tell("agent " + launch_.node, "leaves");
  world_.truth.leaves(name());
  phase_ = Phase::gone;
  left_();
}

NodeReport Agent::report() const {
  NodeReport report;
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
  if (node_.index == 0) report.saved = world_.training.saved(name().attempt());
  if (node_.index == 0) report.saved_step = world_.training.saved_step(name().attempt());
  return report;
}

// --- Watching its ranks ---

// How far they are, and whether they hang. What to do about that is the daemon's to decide, unless
// that does not answer.
void Agent::watch() {
  const Progress progress = world_.training.progress(name().attempt());
  const bool stalled = progress.step >= 0 && launch_.hang_after > Duration(0) &&
                       progress.since_step >= launch_.hang_after;
  if (phase_ == Phase::running && progress.step >= 0) count_running_time();
  const bool known = hangs();
  for (Rank& rank : ranks_) {
    if (rank.state != RankState::running) continue;
    rank.step = progress.step;
    rank.stalled_since.reset();
    if (stalled) rank.stalled_since = moment() - progress.since_step;
  }
  if (hangs() != known) look();
  if (phase_ == Phase::running && hangs() && patience() <= Duration(0))
    begin_stop(StopReason::no_progress, "a rank hangs, and the daemon does not answer");
}

bool Agent::hangs() const {
  return std::ranges::any_of(ranks_, [](const Rank& rank) {
    return rank.state == RankState::running && rank.stalled_since.has_value();
  });
}

// With a daemon that does not answer while a rank hangs.
Duration Agent::patience() const {
  return answered_ + std::min(launch_.hang_after, kHungAlone) - world_.scene.timeline.now();
}

void Agent::look() {
  for (int local : running_ranks())
    ranks_.at(static_cast<std::size_t>(local)).activity =
        standing_.contains(local) ? Activity::stopped : Activity::sleeping;
  if (seen_ && !standing_.empty()) std::exchange(seen_, {})();
}

// --- Its ranks ---

// Once. What it is told meanwhile it obeys when they run.
void Agent::begin_start() {
  if (late_ == Duration(0)) return start_ranks();
  starting_ = true;
  world_.scene.tell("agent " + launch_.node, "takes {} to start its ranks", text(late_));
  world_.truth.starts_late(launch_, late_);
  later(late_, [](Agent& agent) {
    agent.starting_ = false;
    agent.world_.truth.has_started_late(agent.launch_, agent.late_);
    agent.start_ranks();
    agent.obey(agent.orders_);
  });
}

void Agent::start_ranks() {
  phase_ = Phase::running;
  started_ = world_.scene.timeline.now();
  state_ = NodeState::running;
  world_.scene.tell("agent " + launch_.node, "starts {} ranks", launch_.devices.size());
  for (int local = 0; local < static_cast<int>(launch_.devices.size()); ++local) {
    Rank& rank = ranks_.emplace_back();
    rank.rank = launch_.first_rank + local;
    rank.local_rank = local;
    world_.truth.rank_began(name().attempt(), rank.rank);
  }
  for (const Rank& rank : ranks_)
    world_.training.join(name().attempt(), rank.rank, launch_.world_size, program_,
                         [this, local = rank.local_rank](RankEnd how) { end_rank(local, how); });
  await_other_nodes();
  if (launch_.nodes == 1) count_running_time();
  tell();
}

// Again at each `start`: after the last one they all run within the limit, or never will.
void Agent::await_other_nodes() {
  if (!running_end_) end_at(world_.scene.timeline.now() + launch_.start_limit + launch_.time_left);
}

// Once all nodes' ranks run, as the daemon says or their steps show: no later than the wait for
// them would have ended. Repeats change nothing.
void Agent::count_running_time() {
  if (!running_end_) running_end_ = world_.scene.timeline.now() + launch_.time_left;
  end_at(std::min(time_out_, *running_end_));
}

// The daemon says so: however late they came, they have their time.
void Agent::grant_running_time() {
  count_running_time();
  end_at(*running_end_);
}

void Agent::end_at(Duration moment) {
  if (moment == time_out_) return;
  time_out_ = moment;
  later(moment - world_.scene.timeline.now(), [planned = ++time_outs_](Agent& agent) {
    if (agent.phase_ != Phase::running || agent.time_outs_ != planned) return;
    if (!agent.running_end_) agent.world_.truth.gives_up(agent.launch_);
    agent.begin_stop(StopReason::timeout, "time-out");
  });
}

// Repeats change nothing.
void Agent::begin_stop(StopReason reason, std::string message) {
  if (state_ == NodeState::stopping) return;
  state_ = NodeState::stopping;
  stop_reason_ = reason;
  message_ = std::move(message);
  if (phase_ == Phase::running) {
    phase_ = Phase::stopping;
    signal_ranks(SIGTERM, program_.stop_time);
    later(kGrace, [](Agent& agent) {
      if (agent.phase_ == Phase::stopping) agent.make_end();
    });
  } else if (phase_ == Phase::waiting) {
    reaped();
  }
  tell();
}

void Agent::make_end() {
  phase_ = Phase::stopping;
  signal_ranks(SIGKILL, kReap);
  reaped();
}

void Agent::signal_ranks(int signal, Duration delay) {
  if (!std::exchange(signalled_, true)) look();
  for (int local : running_ranks())
    world_.scene.timeline.after(delay, [weak = weak_from_this(), local, signal] {
      if (const auto self = weak.lock())
        self->end_rank(local, {.state = RankState::killed, .code = signal});
    });
}

void Agent::kill_rank(int local_rank, int signal) {
  end_rank(local_rank, {.state = RankState::killed, .code = signal});
}

void Agent::cut_off_rank(int local_rank, int from) {
  world_.training.cut(name().attempt(), launch_.first_rank + local_rank, from);
}

void Agent::stop_rank(int local_rank) {
  const Rank& rank = ranks_.at(static_cast<std::size_t>(local_rank));
  if (rank.state != RankState::running || !standing_.emplace(local_rank, std::nullopt).second)
    return;
  const bool has_stepped = world_.training.progress(name().attempt()).step >= 0;
  world_.truth.rank_stopped(launch_, rank.rank, has_stepped);
  world_.training.hold(name().attempt(), rank.rank);
}

void Agent::continue_rank(int local_rank) {
  const auto standing = standing_.find(local_rank);
  if (standing == standing_.end()) return;
  const auto end = standing->second;
  standing_.erase(standing);
  const int rank = ranks_.at(static_cast<std::size_t>(local_rank)).rank;
  world_.truth.rank_continued(launch_, rank);
  world_.training.let_go(name().attempt(), rank);
  if (end) end_rank(local_rank, *end);
}

void Agent::end_rank(int local_rank, RankEnd how) {
  Rank& rank = ranks_.at(static_cast<std::size_t>(local_rank));
  if (rank.state != RankState::running) return;
  const bool by_force = how.state == RankState::killed && how.code == SIGKILL;
  if (const auto standing = standing_.find(local_rank); standing != standing_.end()) {
    if (!by_force && !standing->second) standing->second = how;
    if (!by_force) return;
    standing_.erase(standing);
  }
  rank.state = how.state;
  rank.code = how.code;
  rank.signalled_by_us = signalled_;
  rank.fault = how.fault;
  rank.fault_rank = how.fault_rank;
  rank.ended = moment();
  if (!signalled_) rank.stalled_since.reset();
  const bool well = how.state == RankState::exited && how.code == 0;
  world_.scene.tell("agent " + launch_.node, "rank {} {} {}{}", rank.rank, text(how.state),
                    how.code, signalled_ ? " after a signal of ours" : "");
  world_.truth.rank_ended(name().attempt(), rank.rank, how.state, how.code);
  if (!stood_still_)
    world_.truth.ran_unattended(launch_,
                                world_.scene.timeline.now() - std::max(started_, answered_));
  world_.training.leave(name().attempt(), rank.rank, well);
  if (!well && !signalled_) look();
  if (!well && !signalled_ && !std::exchange(ended_badly_, true))
    later(kStopAlone, [](Agent& agent) {
      if (agent.phase_ == Phase::running) agent.begin_stop(StopReason::none, "");
    });
  reaped();
  tell();
}

// What they left behind is cleared away before the agent says that it has ended.
void Agent::reaped() {
  if (phase_ >= Phase::clearing || !running_ranks().empty()) return;
  phase_ = Phase::clearing;
  const bool resists = resist_ && !ranks_.empty();
  if (resists) std::exchange(resist_, {})();
  later(resists ? kClearMost : kClear, [](Agent& agent) {
    agent.phase_ = Phase::ended;
    agent.tell();
  });
}

bool Agent::has_children() const {
  return !running_ranks().empty() || (phase_ == Phase::clearing && !ranks_.empty());
}

void Agent::die() {
  phase_ = Phase::gone;
  standing_.clear();
  for (Rank& rank : ranks_) {
    if (rank.state != RankState::running) continue;
    rank.state = RankState::killed;
    world_.truth.rank_ended(name().attempt(), rank.rank, RankState::killed, SIGKILL);
    world_.training.leave(name().attempt(), rank.rank, false);
  }
}

}  // namespace lockstep::sim

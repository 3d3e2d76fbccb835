#include "sim/world/agent.h"

#include <algorithm>
#include <csignal>
#include <utility>
#include <variant>

namespace lockstep::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kHeartbeatInterval = seconds(2);
constexpr Duration kReap = milliseconds(1);
constexpr int kMasterPort = 4000;
constexpr int kRendezvousPort = 5000;

agent::AgentSettings settings_of(const host::LaunchSpec& launch, const model::ClockRow& clock) {
  return {.first_rank = launch.first_rank,
          .nodes = launch.nodes,
          .hang_after = launch.hang_after,
          .time_left = launch.time_left,
          .signal = {},
          .start_limit = launch.start_limit,
          .lease = launch.lease,
          .on_failure = launch.on_failure,
          .clock_zero = clock.zero};
}

}  // namespace

Agent::Agent(const AgentComponents& components, ProcessId id, host::LaunchSpec launch,
             OnExit on_exit)
    : components_(components),
      id_(id),
      launch_(std::move(launch)),
      node_(model::parse_node_id(launch_.node).value()),
      clock_{components.context.clock.boot_id(),
             wall_time_at_boot(components.context.clock, components.context.clock)},
      program_(program_of(launch_.command)),
      on_exit_(std::move(on_exit)),
      state_(settings_of(launch_, clock_)),
      heartbeats_(
          {.heartbeat_interval = kHeartbeatInterval, .refusal_limit = launch_.refusal_limit},
          now()),
      status_(status()) {}

void Agent::begin(Duration delay) {
  schedule(delay, [](Agent& agent) { agent.send_call(); });
}

void Agent::schedule(Duration delay, std::function<void(Agent&)> act) {
  components_.context.timeline.after(delay, [weak = weak_from_this(), act = std::move(act)] {
    if (const auto self = weak.lock()) self->run_unless_suspended(act);
  });
}

void Agent::run_unless_suspended(std::function<void(Agent&)> act) {
  if (gone_) return;
  if (suspended_) return deferred_.push_back(std::move(act));
  act(*this);
}

void Agent::suspend() { suspended_ = was_suspended_ = true; }

void Agent::resume() {
  suspended_ = false;
  resumed_ = now();
  for (const auto& act : std::exchange(deferred_, {})) run_unless_suspended(act);
  run_loop([](Agent&) {});
}

// --- The loop of the agent ---

void Agent::run_loop(std::function<void(Agent&)> act) {
  run_unless_suspended([act = std::move(act)](Agent& agent) {
    if (agent.starting_) return agent.awaiting_start_.push_back(act);
    agent.read_progress();
    agent.collect_ended_ranks();
    act(agent);
    agent.finish_iteration();
  });
}

void Agent::finish_iteration() {
  if (gone_ || starting_) return;
  const model::StopReason before = state_.stop_reason;
  handle(agent::TimePassed{now() - heartbeats_.last_answer(), heartbeats_.is_status_delivered(),
                           now() - heartbeats_.last_contact()});
  if (before != state_.stop_reason && state_.stop_reason == model::StopReason::timeout &&
      !state_.running_end)
    components_.truth.start_wait_timed_out(launch_);
  else if (before != state_.stop_reason && state_.stop_reason == model::StopReason::timeout)
    components_.truth.time_limit_reached(launch_, state_.settings.time_left);
  if (!gone_) plan_next_iteration();
}

void Agent::plan_next_iteration() {
  const auto next = agent::next_deadline(state_, now());
  if (next == next_iteration_) return;
  next_iteration_ = next;
  if (!next) return;
  schedule(std::max(Duration(0), *next - now()), [planned = *next](Agent& agent) {
    if (agent.next_iteration_ != planned) return;
    agent.next_iteration_.reset();
    agent.run_loop([](Agent&) {});
  });
}

void Agent::apply_order() {
  const model::Command command = heartbeats_.command();
  if (command.kind == model::CommandKind::leave && !state_.ranks.is_signalled() &&
      state_.ranks.any_running())
    components_.truth.check_forced_end(name());
  handle(agent::CommandReceived{command, heartbeats_.is_refused()});
}

// Reports of ranks arrive at the time of their step, or when the agent is resumed.
void Agent::read_progress() {
  keep_progress();
  if (!progress_ || *progress_ == progress_read_) return;
  progress_read_ = *progress_;
  const auto& [step, moment] = progress_read_;
  for (const model::Rank& rank : state_.ranks.all())
    handle(agent::ProgressReported{rank.local_rank, step}, std::max(moment, resumed_));
  for (model::Rank& rank : status_.ranks) rank.step = state_.ranks.at(rank.local_rank).step;
}

void Agent::collect_ended_ranks() {
  agent::RanksEnded ended;
  for (const auto& [local, how] : std::exchange(ends_, {})) {
    if (how.fault != report::Fault::none)
      handle(agent::FaultReported{local, how.fault, how.fault_rank});
    ended.ends.push_back({local, how.state, how.code});
    components_.truth.rank_end_seen(name().attempt());
  }
  if (!ended.ends.empty()) handle(ended);
}

void Agent::handle(const agent::Event& event) { handle(event, now()); }

void Agent::handle(const agent::Event& event, Duration moment) {
  for (const agent::Effect& effect : agent::step(state_, event, moment))
    if (!gone_) std::visit([&](const auto& each) { carry_out(each); }, effect);
}

void Agent::carry_out(const agent::StartRanks&) {
  if (start_delay_ == Duration(0)) return start_ranks();
  starting_ = true;
  components_.context.trace("agent " + launch_.node, "takes {} to start its ranks",
                            text(start_delay_));
  components_.truth.start_delayed(launch_, start_delay_);
  schedule(start_delay_, [](Agent& agent) {
    agent.starting_ = false;
    agent.components_.truth.delayed_start_done(agent.launch_, agent.start_delay_);
    agent.start_ranks();
    agent.finish_iteration();
    for (auto& act : std::exchange(agent.awaiting_start_, {})) agent.run_loop(std::move(act));
  });
}

void Agent::start_ranks() {
  started_ = now();
  processes_.resize(launch_.devices.size());
  for (int local = 0; local < static_cast<int>(processes_.size()); ++local)
    components_.truth.rank_began(name().attempt(), rank_of(local));
  for (int local = 0; local < static_cast<int>(processes_.size()); ++local)
    components_.training.join(name().attempt(), rank_of(local), launch_.world_size, program_,
                              [this, local](RankEnd how) { end_process(local, how); });
  handle(agent::RanksStarted{std::vector<std::int64_t>(processes_.size(), 0)});
}

// No simulated user chooses OnFailure::wait.
void Agent::carry_out(const agent::RestartRank& effect) {
  handle(agent::RestartFailed{effect.local_rank, "the simulator restarts no rank"});
}

void Agent::carry_out(const agent::CheckRanks&) {
  collect_ended_ranks();
  agent::RanksChecked checked{.activities = {}, .cpu_time = now()};  // they always compute
  bool any_suspended = false;
  for (int local : running_ranks()) {
    const auto since = process(local).suspended;
    any_suspended = any_suspended || since;
    checked.activities[local] = {since ? model::Activity::stopped : model::Activity::sleeping,
                                 since};
  }
  if (any_suspended && on_suspended_rank_seen_) std::exchange(on_suspended_rank_seen_, {})();
  handle(checked);
}

void Agent::carry_out(const agent::SignalRanks& effect) {
  const Duration delay = effect.signal == SIGKILL ? kReap : program_.stop_time;
  for (int local : running_ranks())
    components_.context.timeline.after(delay,
                                       [weak = weak_from_this(), local, signal = effect.signal] {
                                         if (const auto self = weak.lock())
                                           self->kill_rank(local, signal);
                                       });
}

void Agent::carry_out(const agent::KillLeftovers&) {
  if (on_cleanup_ && !processes_.empty()) {
    resists_ = true;
    std::exchange(on_cleanup_, {})();
  }
  agent::LeftoversChecked checked;
  if (resists_) checked.pids.push_back(id_);
  handle(checked);
}

void Agent::carry_out(const agent::ReportStatus&) {
  model::NodeReport next = status();
  if (next.state == status_.state && next.stop_reason == status_.stop_reason &&
      next.message == status_.message && next.ranks == status_.ranks)
    return;
  status_ = std::move(next);
  heartbeats_.record_status_change();
  plan_call();
}

void Agent::carry_out(const agent::WriteLog& effect) {
  components_.context.trace("agent " + launch_.node, "{}", effect.text);
}

void Agent::carry_out(const agent::Exit&) {
  components_.context.trace("agent " + launch_.node, "leaves");
  components_.truth.check_agent_exit(name());
  gone_ = true;
  on_exit_();
}

// --- Its calls ---

void Agent::plan_call() {
  if (calling_ || gone_ || heartbeats_.is_refused()) return;
  const Duration moment = heartbeats_.has_news() ? now() : heartbeats_.next_call();
  schedule(std::max(Duration(0), moment - now()), [planned = ++call_plan_](Agent& agent) {
    if (agent.call_plan_ == planned && !agent.calling_) agent.send_call();
  });
}

void Agent::send_call() {
  calling_ = true;
  heartbeats_.begin_call(now());
  read_progress();
  model::NodeReport report = status_;
  if (node_.index == 0) {
    report.last_checkpoint = components_.training.last_checkpoint(name().attempt());
    report.last_checkpoint_step = components_.training.last_checkpoint_step(name().attempt());
  }
  components_.network.call(
      host(), report, [weak = weak_from_this()](Result<model::Command> answer) {
        if (const auto self = weak.lock())
          self->run_unless_suspended([answer](Agent& agent) { agent.handle_answer(answer); });
      });
}

void Agent::handle_answer(const Result<model::Command>& answer) {
  calling_ = false;
  const model::CommandKind before = heartbeats_.command().kind;
  const bool has_order = answer ? heartbeats_.handle_answer(*answer, now())
                                : heartbeats_.handle_failure(answer.error(), now());
  if (before != heartbeats_.command().kind)
    components_.context.trace("agent " + launch_.node, "is told: {}",
                              text(heartbeats_.command().kind));
  run_loop([has_order](Agent& agent) {
    if (has_order) agent.apply_order();
  });
  plan_call();
}

model::NodeReport Agent::status() const {
  model::NodeReport report;
  report.node = node_;
  report.generation = launch_.generation;
  report.state = state_.node_state;
  report.address = launch_.address;
  report.master_port = kMasterPort;
  report.rendezvous_port = node_.index == 0 ? kRendezvousPort : 0;
  report.agent_pid = id_;
  report.agent = {.id = format("{}", id_), .machine = launch_.host, .started = clock_.zero};
  report.stop_reason = state_.stop_reason;
  report.message = state_.message;
  report.ranks = state_.ranks.all();
  report.clock = clock_;
  return report;
}

// --- Its processes ---

std::vector<int> Agent::running_ranks() const {
  std::vector<int> running;
  for (int local = 0; local < static_cast<int>(processes_.size()); ++local)
    if (processes_[static_cast<std::size_t>(local)].running) running.push_back(local);
  return running;
}

// The last step stays known when the ranks are gone.
void Agent::keep_progress() {
  const Progress progress = components_.training.progress(name().attempt());
  if (!processes_.empty() && progress.step >= 0)
    progress_ = {progress.step, now() - progress.since_step};
}

void Agent::kill_rank(int local_rank, int signal) {
  end_process(local_rank, {.state = model::RankState::killed, .code = signal});
}

void Agent::cut_connection(int local_rank, int from) {
  components_.training.cut_connection(name().attempt(), rank_of(local_rank), from);
}

void Agent::suspend_rank(int local_rank) {
  RankProcess& rank = process(local_rank);
  if (!rank.running || rank.suspended) return;
  rank.suspended = now();
  const bool has_stepped = components_.training.progress(name().attempt()).step >= 0;
  components_.truth.rank_suspended(launch_, rank_of(local_rank), has_stepped);
  components_.training.suspend(name().attempt(), rank_of(local_rank));
}

void Agent::resume_rank(int local_rank) {
  RankProcess& rank = process(local_rank);
  if (!rank.running || !rank.suspended) return;
  rank.suspended.reset();
  components_.truth.rank_resumed(launch_, rank_of(local_rank));
  components_.training.resume(name().attempt(), rank_of(local_rank));
  if (const auto end = std::exchange(rank.end_at_resume, std::nullopt))
    end_process(local_rank, *end);
}

void Agent::end_process(int local_rank, RankEnd how) {
  RankProcess& rank = process(local_rank);
  if (!rank.running || gone_) return;
  const bool by_force = how.state == model::RankState::killed && how.code == SIGKILL;
  if (rank.suspended && !by_force) {
    if (!rank.end_at_resume) rank.end_at_resume = how;
    return;
  }
  keep_progress();
  rank = {.running = false};
  ends_.emplace_back(local_rank, how);
  const auto attempt = name().attempt();
  components_.truth.rank_ended(attempt, rank_of(local_rank), how.state, how.code);
  if (!was_suspended_)
    components_.truth.check_unattended_time(launch_,
                                            now() - std::max(started_, heartbeats_.last_answer()));
  components_.training.leave(attempt, rank_of(local_rank),
                             how.state == model::RankState::exited && how.code == 0);
  run_loop([](Agent&) {});
}

bool Agent::has_children() const {
  return !running_ranks().empty() ||
         (state_.phase == agent::Phase::cleaning_up && !processes_.empty());
}

void Agent::kill() {
  gone_ = true;
  for (int local : running_ranks()) {
    process(local) = {.running = false};
    components_.truth.rank_ended(name().attempt(), rank_of(local), model::RankState::killed,
                                 SIGKILL);
    components_.training.leave(name().attempt(), rank_of(local), false);
  }
}

}  // namespace lockstep::sim

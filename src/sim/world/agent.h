// Agent: one node's agent on the simulated network. The decisions are those of the real agent
// (platform/agent/core). This is their shell, with simulated processes: they follow their program,
// and end by signals or with their peers. It omits logs, metrics and events. It also omits the
// daemon's delayed answers; one call every two seconds replaces them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "platform/agent/core/heartbeat_schedule.h"
#include "platform/agent/core/step.h"
#include "platform/core/model/command.h"
#include "platform/core/model/event.h"
#include "platform/host/launch_spec.h"
#include "sim/checks/ground_truth.h"
#include "sim/faults/network.h"
#include "sim/faults/seeded_random.h"
#include "sim/world/training.h"

namespace lockstep::sim {

// Shared: planned actions hold a weak reference, and have no effect once the agent is gone.
class Agent : public std::enable_shared_from_this<Agent> {
 public:
  struct AgentComponents {
    SimContext& context;
    Network& network;
    Training& training;
    GroundTruth& truth;
  };
  using OnExit = std::function<void()>;

  // Calls `on_exit` when it exits on its own.
  Agent(const AgentComponents& components, ProcessId id, host::LaunchSpec launch, OnExit on_exit);

  // Its first call happens after `delay`.
  void begin(Duration delay);
  // SIGKILL to the agent and its ranks; it sends no further report.
  void kill();
  // A signal from outside ends the rank.
  void kill_rank(int local_rank, int signal);
  // Cuts the connection to another rank of the attempt. Both live.
  void cut_connection(int local_rank, int from);
  // SIGSTOP from outside: the rank lives, makes no step, and only SIGKILL ends it. SIGCONT from
  // outside: has no effect unless the rank is suspended.
  void suspend_rank(int local_rank);
  void resume_rank(int local_rank);
  // The same for the agent itself: its ranks go on, and it neither receives nor sends until it is
  // resumed.
  void suspend();
  void resume();
  bool is_suspended() const { return suspended_; }
  // The time from `start` until its ranks run, as for a program that loads from a disk that does
  // not answer. Meanwhile the agent applies no command.
  void set_start_delay(Duration late) { start_delay_ = late; }
  // `act` is called when the last rank has ended and its remaining processes resist cleanup.
  void on_cleanup(std::function<void()> act) { on_cleanup_ = std::move(act); }
  // `act` is called once a check of the ranks finds a suspended one, before the agent reports it.
  void on_suspended_rank_seen(std::function<void()> act) {
    on_suspended_rank_seen_ = std::move(act);
  }

  ProcessId id() const { return id_; }
  const model::NodeId& node() const { return node_; }
  model::NodeName name() const { return {launch_.generation, node_}; }
  const std::string& host() const { return launch_.host; }
  const Program& program() const { return program_; }
  const host::LaunchSpec& launch() const { return launch_; }
  std::vector<int> running_ranks() const;  // local numbers
  // True while it ends ranks that have not ended yet.
  bool is_stopping() const { return state_.phase == agent::Phase::stopping; }
  // Its ranks run, and the daemon has not reported yet that those of the other nodes do.
  bool awaits_other_nodes() const {
    return state_.phase == agent::Phase::running && !state_.running_end;
  }
  // Its ranks run, or their remains are not cleared up yet.
  bool has_children() const;

 private:
  // A rank's process. Ranks share their program's steps (Training).
  struct RankProcess {
    bool running = true;
    std::optional<Duration> suspended{};     // since then, on the timeline
    std::optional<RankEnd> end_at_resume{};  // how it ends once it is resumed
  };

  Duration now() const { return components_.context.timeline.now(); }
  // Calls `act` after the delay, once the agent is not suspended, and unless it is gone.
  void schedule(Duration delay, std::function<void(Agent&)> act);
  void run_unless_suspended(std::function<void(Agent&)> act);

  // The loop of the agent
  void run_loop(std::function<void(Agent&)> act);
  void finish_iteration();
  void plan_next_iteration();
  void apply_order();
  void read_progress();
  void collect_ended_ranks();
  void handle(const agent::Event& event);
  void handle(const agent::Event& event, Duration moment);
  void carry_out(const agent::StartRanks& effect);
  void carry_out(const agent::RestartRank& effect);
  void carry_out(const agent::CheckRanks& effect);
  void carry_out(const agent::SignalRanks& effect);
  void carry_out(const agent::KillLeftovers& effect);
  void carry_out(const agent::FinishStreams&) {}
  void carry_out(const agent::ReportStatus& effect);
  void carry_out(const agent::AddEvent&) {}
  void carry_out(const agent::AddLogLine&) {}
  void carry_out(const agent::NotifyPeers&) {}
  void carry_out(const agent::LogLastLines&) {}
  void carry_out(const agent::WriteLog& effect);
  void carry_out(const agent::Exit& effect);
  void start_ranks();

  // Its calls
  void plan_call();
  void send_call();
  void handle_answer(const Result<model::Command>& answer);
  model::NodeReport status() const;

  // Its processes
  RankProcess& process(int local_rank) {
    return processes_.at(static_cast<std::size_t>(local_rank));
  }
  int rank_of(int local_rank) const { return launch_.first_rank + local_rank; }
  void end_process(int local_rank, RankEnd how);
  void keep_progress();

  AgentComponents components_;
  const ProcessId id_;
  const host::LaunchSpec launch_;
  const model::NodeId node_;
  const model::ClockRow clock_;  // the clock of its reports
  const Program program_;
  const OnExit on_exit_;

  agent::AgentState state_;
  agent::HeartbeatSchedule heartbeats_;
  model::NodeReport status_;  // as last reported, with the steps of now
  bool gone_ = false;         // it exited or was killed
  bool suspended_ = false;
  bool was_suspended_ = false;                         // at any time
  Duration resumed_{};                                 // on the timeline
  std::vector<std::function<void(Agent&)>> deferred_;  // events during a suspension
  std::optional<Duration> next_iteration_;             // as planned; others have no effect
  std::int64_t call_plan_ = 0;                         // the newest; older ones have no effect
  bool calling_ = false;

  std::vector<RankProcess> processes_;                      // by local rank
  std::vector<std::pair<int, RankEnd>> ends_;               // not collected yet, by local rank
  std::optional<std::pair<int, Duration>> progress_;        // the last step, and its time; unread
  std::pair<int, Duration> progress_read_{-1, Duration()};  // the last that was read
  Duration start_delay_{};                                  // of its ranks
  bool starting_ = false;                                   // during that delay
  std::vector<std::function<void(Agent&)>> awaiting_start_;
  Duration started_{};    // on the timeline; when its ranks started
  bool resists_ = false;  // its remaining processes do not end
  std::function<void()> on_cleanup_;
  std::function<void()> on_suspended_rank_seen_;
};

}  // namespace lockstep::sim

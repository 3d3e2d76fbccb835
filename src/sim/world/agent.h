// Agent: one node's agent and its ranks on the simulated network. It follows the protocol of
// docs/design/agent.md as platform/agent does. It omits logs and metrics. It also omits the
// daemon's delayed answers; one call every two seconds replaces them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "platform/core/model/command.h"
#include "platform/core/model/event.h"
#include "platform/engine/launch_spec.h"
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
  Agent(const AgentComponents& components, ProcessId id, engine::LaunchSpec launch, OnExit on_exit);

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
  // The time from `start` until its ranks run. Meanwhile the agent does not call the daemon or
  // apply commands, like a program that loads from a disk that does not answer.
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
  const engine::LaunchSpec& launch() const { return launch_; }
  std::vector<int> running_ranks() const;  // local numbers
  // True while it ends ranks that have not ended yet.
  bool is_stopping() const { return phase_ == Phase::stopping; }
  // Its ranks run, and the daemon has not reported yet that those of the other nodes do.
  bool awaits_other_nodes() const { return phase_ == Phase::running && !running_time_end_; }
  // Its ranks run, or their remains are not cleared up yet.
  bool has_children() const;

 private:
  enum class Phase { waiting, running, stopping, cleaning_up, ended, exited };

  template <class Act>
  void schedule(Duration delay, Act act);
  void run_unless_suspended(std::function<void(Agent&)> act);

  // Communication with the daemon
  void report_status();
  void send_heartbeat();
  void schedule_heartbeat(Duration delay);
  void handle_answer(const Result<model::Command>& answer);
  void handle_orphan_answer(const model::Command& command);
  void apply_command(const model::Command& command);
  bool may_exit() const;
  void exit();
  model::NodeReport report() const;
  Time wall_time() const { return clock_.zero + components_.context.timeline.now(); }

  // Supervision of its ranks
  void update_steps();
  void update_activity();
  bool has_hung_rank() const;
  Duration time_until_self_stop() const;

  // Its ranks
  void begin_start();
  void start_ranks();
  void await_other_nodes();
  void start_running_time();
  void grant_full_time_limit();
  void set_timeout_at(Duration moment);
  void begin_stop(model::StopReason reason, std::string message);
  void kill_ranks();
  void signal_ranks(int signal, Duration delay);
  void end_rank(int local_rank, RankEnd how);
  void handle_ended_ranks();

  AgentComponents components_;
  const ProcessId id_;
  const engine::LaunchSpec launch_;
  const model::NodeId node_;
  const model::ClockRow clock_;  // the clock of its reports
  const Program program_;
  const OnExit on_exit_;

  Phase phase_ = Phase::waiting;
  model::NodeState state_ = model::NodeState::ready;
  model::StopReason stop_reason_ = model::StopReason::none;
  std::string message_;
  std::vector<model::Rank> ranks_;
  std::map<int, std::optional<RankEnd>>
      suspended_ranks_;       // local ranks, and how they end once resumed
  bool signalled_ = false;    // from here on, ranks end because of this agent's signal
  bool rank_failed_ = false;  // a rank failed before that
  std::optional<Duration> running_time_end_;  // on the timeline; set once all nodes' ranks run
  Duration timeout_at_{};  // on the timeline; at first the limit of the wait for the other nodes
  std::int64_t timeout_plan_ = 0;  // the newest planned time-out; others have no effect
  bool suspended_ = false;
  bool was_suspended_ = false;  // at any time
  Duration start_delay_{};      // of its ranks
  bool starting_ = false;       // during that delay
  Duration started_{};          // on the timeline; when its ranks started
  std::function<void()> on_cleanup_;
  std::function<void()> on_suspended_rank_seen_;
  std::vector<std::function<void(Agent&)>> deferred_;  // events during a suspension

  model::Command command_;
  bool calling_ = false;
  int failures_ = 0;                   // in a row
  Duration last_answer_{};             // on the timeline
  std::int64_t heartbeat_plan_ = 0;    // the newest planned call; older ones have no effect
  std::int64_t report_version_ = 1;    // of the current report
  std::int64_t version_sent_ = 0;      // the version in the call under way
  std::int64_t version_answered_ = 0;  // the last version that was answered
};

}  // namespace lockstep::sim

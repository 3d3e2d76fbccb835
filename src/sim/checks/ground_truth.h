// GroundTruth: the real state of the simulation, whatever the daemon believes: the live processes,
// the ends of their ranks, the contents of the shared disk. It checks the daemon's durable
// decisions against that, and decides nothing.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "platform/core/model/command.h"
#include "platform/core/model/state.h"
#include "platform/engine/launch_spec.h"
#include "sim/checks/cause_checker.h"
#include "sim/checks/preemption_checker.h"
#include "sim/checks/transition_checker.h"
#include "sim/sim_context.h"
#include "sim/world/program.h"
#include "sim/world/running_times.h"

namespace lockstep::sim {

using ProcessId = std::int64_t;  // never reused, unlike real ones

struct Process {
  NodeId node;
  std::string generation;
  std::string host;
  std::vector<int> devices;
  bool is_agent = true;
  NodeName name() const { return {generation, node}; }
};

class GroundTruth {
 public:
  // interval: between checkpoints; a paused run must have run at least that long.
  GroundTruth(SimContext& context, const State& durable, const ClusterMap& map, Duration interval)
      : context_(context),
        durable_(durable),
        map_(map),
        preemption_checker_(context, durable, interval) {}

  // An agent with all processes that it starts, or the remains of a dead one.
  void process_began(ProcessId id, Process process);
  void process_ended(ProcessId id);
  void rank_began(const AttemptName& attempt, int rank);
  void rank_ended(const AttemptName& attempt, int rank, RankState state, int code);
  // The run's steps up to `step` are saved on the shared disk.
  void checkpointed(const AttemptName& attempt, int step);
  int checkpoint_of(const RunId& run) const;

  // SIGSTOP from outside to a rank, which may have taken a step; and SIGCONT.
  void rank_suspended(const LaunchSpec& launch, int rank, bool has_stepped);
  void rank_resumed(const LaunchSpec& launch, int rank);

  // An agent's start of its ranks is delayed by `late`; and the delayed start is done.
  void start_delayed(const LaunchSpec& launch, Duration late);
  void delayed_start_done(const LaunchSpec& launch, Duration late);
  // An agent ends its ranks at their time-out before it was told that the ranks of all nodes run.
  void start_wait_timed_out(const LaunchSpec& launch);
  // A rank ends after it ran for so long since the daemon's last answer to its agent.
  void check_unattended_time(const LaunchSpec& launch, Duration alone) const;
  // An agent ends ranks by force without having asked them to end, and exits, both on command.
  void check_forced_end(const NodeName& node) const;
  void check_agent_exit(const NodeName& node) const;

  // The engine gets this request.
  void check_launch(const LaunchSpec& launch);
  void check_kill(const NodeName& node);
  // An agent's report reaches the daemon; the daemon accepted the reports of that moment and has
  // answered.
  void report_arrived(const NodeReport& report);
  void report_accepted(const NodeReport& report, Duration arrived);
  // The rows are about to become durable.
  void check_commit(std::span<const Change> changes);
  // An agent gets this answer.
  void check_answer(const NodeReport& report, const Command& command) const;
  // The user was told that the run is accepted.
  void submission_acknowledged(const RunId& run);
  // The user sends a request that may not arrive. A request that failed must not take effect later.
  void resume_requested(const RunId& run);
  void resume_request_done(const RunId& run) { resumable_.erase(run); }
  void stop_requested(const RunId& run);
  // The user was told that it is being stopped.
  void check_stop_acknowledged(const RunId& run) const;

  // An operator asks to end or adopt the orphans of the run; the request may be lost.
  void orphan_stop_requested(const RunId& run);
  void orphan_stop_acknowledged(const RunId& run);
  void adoption_requested(const RunId& run) { adoptable_.insert(run); }
  void adoption_request_done(const RunId& run) { adoptable_.erase(run); }
  bool was_adopted(const RunId& run) const { return adopted_.contains(run); }
  // Another store has replaced this one.
  void store_replaced(const State& before);
  // Attempts of a replaced store that an operator stopped, and that this store does not know, with
  // the time of the stop on the timeline.
  const std::map<AttemptName, Duration>& stopped_orphans() const { return orphans_to_stop_; }
  bool is_alive(const AttemptName& attempt) const;

  // A fault that may cost the run an attempt, or make it end differently from its program.
  void mark_disturbed(const RunId& run);
  void mark_disturbed(const AttemptName& attempt);
  void mark_all_disturbed();
  // A fault that ends the attempt if it is the only one.
  void record_fault(const AttemptName& attempt, InjectedFault fault);
  // When the faults are over and every run has ended: all promises are kept.
  void check_final_state() const;

  // A process of the node is alive; a rank of it is.
  bool is_alive(const NodeName& node) const;
  bool has_ranks(const Node& node) const;
  // When a report of it was last accepted, and when the engine was last asked to kill it.
  std::optional<Time> last_report_time(const NodeName& node) const {
    return time_of(report_times_, node);
  }
  std::optional<Time> last_kill_time(const NodeName& node) const {
    return time_of(kill_times_, node);
  }
  // When its last agent ended; nothing while one lives.
  std::optional<Time> agent_ended(const NodeName& node) const;
  // The daemon knows the ends of all its ranks, so that its agent is not missed.
  bool has_reported_all_ends(const NodeName& node) const;
  static bool has_reported_all_ends(const State& store, const NodeName& node);

 private:
  struct LaunchRecord {
    std::set<int> nodes{};
    std::int64_t order = 0;  // among all attempts
    Duration time_left{};    // of its run's time-out
  };
  struct GangStart {
    Duration first{};  // rank of the attempt, on the timeline
    Duration last{};
    int ranks = 0;
  };

  std::optional<Time> time_of(const std::map<NodeName, Duration>& times,
                              const NodeName& node) const;
  void record_folder(const RunId& run, const std::string& folder);
  void check_gang_is_ready(const AttemptName& attempt) const;
  void check_placement(const Commit& commit, const Node& node) const;
  void check_release(const Node& node) const;
  void check_name(const Commit& commit, const Attempt& attempt);
  void check_run(const Commit& commit, const Run& run);
  void check_cancelled(const Commit& commit, const Run& run);
  void check_success(const Run& run) const;
  void check_preempted(const Attempt& attempt) const;
  void check_ended(const Attempt& attempt) const;
  bool has_agent(const NodeName& node) const;
  bool is_abandoned(const NodeName& node) const;
  void check_final_run(const Run& run) const;
  bool timeout_suffices(const Run& run) const;
  std::int64_t preemptions_of(const RunId& run) const;

  SimContext& context_;
  const State& durable_;
  const ClusterMap& map_;
  RunningTimes times_{context_};
  TransitionChecker transition_checker_{context_, durable_, times_, map_};
  CauseChecker cause_checker_{context_, durable_};
  PreemptionChecker preemption_checker_;
  std::map<ProcessId, Process> processes_;
  std::map<RunId, std::set<std::pair<AttemptName, int>>> ranks_;  // alive now
  std::map<AttemptName, std::set<int>> exited_well_;
  std::map<AttemptName, GangStart> gang_starts_;
  std::map<RunId, std::pair<int, AttemptName>> checkpoints_;  // step and attempt
  std::map<AttemptName, LaunchRecord> launched_;
  std::map<NodeName, Duration> report_times_;     // on the timeline
  std::map<NodeName, Duration> kill_times_;       // likewise
  std::map<NodeName, Duration> agent_end_times_;  // likewise; its agent did
  std::set<AttemptName> checkpoint_writers_;      // of any checkpoint
  std::set<RunId> acknowledged_runs_;
  std::map<RunId, std::string> run_folders_;  // numbers that left the daemon, and the run's folder
  std::set<AttemptName> stoppable_orphans_;
  std::map<AttemptName, Duration> orphans_to_stop_;  // on the timeline
  std::set<RunId> adoptable_;
  std::set<RunId> adopted_;  // by any store
  std::set<RunId> resumable_;
  std::set<RunId> stoppable_;
  std::map<RunId, std::int64_t>
      allowed_attempts_;  // attempts that its retries allow, with all resumptions
  std::map<RunId, std::int64_t> preemptions_;  // attempts that were preempted
  std::map<RunId, std::int64_t>
      renewed_retries_;  // retries granted again by newer checkpoints, at most
  std::set<RunId> disturbed_;
  std::map<AttemptName, std::map<int, Duration>>
      suspended_ranks_;                       // ranks, with the start on the timeline
  std::map<RunId, Duration> suspended_time_;  // by ranks that were suspended for a moment
};

}  // namespace lockstep::sim

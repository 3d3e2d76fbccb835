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
#include "platform/host/launch_spec.h"
#include "sim/checks/budget_checker.h"
#include "sim/checks/cause_checker.h"
#include "sim/checks/host_checker.h"
#include "sim/checks/placement_checker.h"
#include "sim/checks/preemption_checker.h"
#include "sim/checks/transition_checker.h"
#include "sim/sim_context.h"
#include "sim/world/program.h"
#include "sim/world/running_times.h"

namespace lockstep::sim {

using ProcessId = std::int64_t;  // never reused, unlike real ones

struct Process {
  model::NodeId node;
  std::string generation;
  std::string host;
  std::vector<int> devices;
  bool is_agent = true;
  int first_rank = 0;  // of an agent
  model::NodeName name() const { return {generation, node}; }
};

class GroundTruth {
 public:
  // interval: between checkpoints; a paused run must have run at least that long.
  GroundTruth(SimContext& context, const model::State& durable, Duration interval)
      : context_(context), durable_(durable), preemption_checker_(context, durable, interval) {}

  HostChecker& hosts() { return host_checker_; }
  PlacementChecker& placement() { return placement_checker_; }

  // An agent with all processes that it starts, or the remains of a dead one.
  void process_began(ProcessId id, Process process);
  void process_ended(ProcessId id);
  void rank_began(const model::AttemptName& attempt, int rank);
  void rank_ended(const model::AttemptName& attempt, int rank, model::RankState state, int code);
  void rank_end_seen(const model::AttemptName& attempt) { times_.rank_end_seen(attempt); }
  // The run's steps up to `step` are saved on the shared disk.
  void checkpointed(const model::AttemptName& attempt, int step);
  int checkpoint_of(const model::RunId& run) const;

  // SIGSTOP from outside to a rank, which may have taken a step; and SIGCONT.
  void rank_suspended(const host::LaunchSpec& launch, int rank, bool has_stepped);
  void rank_resumed(const host::LaunchSpec& launch, int rank);

  // An agent's start of its ranks is delayed by `late`; and the delayed start is done.
  void start_delayed(const host::LaunchSpec& launch, Duration late);
  void delayed_start_done(const host::LaunchSpec& launch, Duration late);
  // An agent ends its ranks at their time-out before it was told that the ranks of all nodes run.
  void start_wait_timed_out(const host::LaunchSpec& launch);
  // The agent ends its ranks at the limit that it knows. If that was extended, the attempt is lost.
  void time_limit_reached(const host::LaunchSpec& launch, Duration limit_known);
  // A rank ends after it ran for so long since the daemon's last answer to its agent.
  void check_unattended_time(const host::LaunchSpec& launch, Duration alone) const;
  // An agent ends ranks by force without having asked them to end, and exits, both on command.
  void check_forced_end(const model::NodeName& node) const;
  void check_agent_exit(const model::NodeName& node) const;

  // The engine gets this request; and a host starts the node.
  void check_submission(const host::LaunchSpec& launch);
  void check_launch(const host::LaunchSpec& launch);
  // The request goes to a cluster that starts the node when it has room.
  void gang_submitted(const host::LaunchSpec& launch);
  void check_kill(const model::NodeName& node);
  // An agent's report reaches the daemon; the daemon accepted the reports of that moment and has
  // answered.
  void report_arrived(const model::NodeReport& report);
  void report_accepted(const model::NodeReport& report, Duration arrived);
  // The rows are about to become durable.
  void check_commit(std::span<const model::Change> changes);
  // An agent gets this answer.
  void check_answer(const model::NodeReport& report, const model::Command& command);
  // The user was told that the run is accepted.
  void submission_acknowledged(const model::RunId& run);
  // The user sends a request that may not arrive. A request that failed must not take effect later.
  void resume_requested(const model::RunId& run);
  void resume_request_done(const model::RunId& run) { resumable_.erase(run); }
  void stop_requested(const model::RunId& run);
  // The user was told that it is being stopped.
  void check_stop_acknowledged(const model::RunId& run) const;

  // An operator asks to end or adopt the orphans of the run; the request may be lost.
  void orphan_stop_requested(const model::RunId& run);
  void orphan_stop_acknowledged(const model::RunId& run);
  void adoption_requested(const model::RunId& run) { adoptable_.insert(run); }
  void adoption_request_done(const model::RunId& run) { adoptable_.erase(run); }
  bool was_adopted(const model::RunId& run) const { return adopted_.contains(run); }
  // Another store has replaced this one.
  void store_replaced(const model::State& before);
  // Nodes of a replaced store that an operator stopped, and that this store does not know, with the
  // time of the stop on the timeline.
  const std::map<model::NodeName, Duration>& stopped_orphans() const { return orphans_to_stop_; }

  // A fault that may cost the run an attempt, or make it end differently from its program.
  void mark_disturbed(const model::RunId& run);
  void mark_disturbed(const model::AttemptName& attempt);
  void mark_all_disturbed();
  // The daemon cannot reach these hosts, or could not until a moment ago.
  void hosts_cut_off(std::set<std::string> hosts) { cut_off_ = std::move(hosts); }
  // The engine cannot reach a host now, or its service cannot work: gangs with a node there may
  // start too late.
  void host_unavailable(const std::string& host);
  // A machine has joined; what an operator declared lost there earlier may still live.
  void host_joined(const std::string& host) { lost_hosts_.erase(host); }
  // A fault that ends the attempt if it is the only one.
  void record_fault(const model::AttemptName& attempt, InjectedFault fault);
  // When the faults are over and every run has ended: all promises are kept.
  void check_final_state() const;

  // A process of the node is alive; a rank of it is.
  bool is_alive(const model::NodeName& node) const;
  bool has_ranks(const model::Node& node) const;
  // When a report of it was last accepted, and when the engine was last asked to kill it.
  std::optional<Time> last_report_time(const model::NodeName& node) const {
    return time_of(report_times_, node);
  }
  std::optional<Time> last_kill_time(const model::NodeName& node) const {
    return time_of(kill_times_, node);
  }
  // The rows have this process as the node's agent.
  bool knows_agent(const model::NodeName& node, ProcessId agent) const;
  // When its last agent ended; nothing while one lives.
  std::optional<Time> agent_ended(const model::NodeName& node) const;
  // The daemon knows the ends of all its ranks, so that its agent is not missed.
  bool has_reported_all_ends(const model::NodeName& node) const;
  static bool has_reported_all_ends(const model::State& store, const model::NodeName& node);
  // Its job at the engine ends with its host.
  bool leads_job(const model::NodeName& node) const;

 private:
  struct LaunchRecord {
    std::set<int> nodes{};
    std::int64_t order = 0;  // among all attempts
    Duration time_left{};    // of its run's time-out
  };
  LaunchRecord& record_launch(const host::LaunchSpec& launch);
  struct GangStart {
    Duration first{};  // rank of the attempt, on the timeline
    Duration last{};
    int ranks = 0;
  };

  // The daemon believes that the rank's process is stopped.
  bool is_known_as_stopped(const model::AttemptName& attempt, int rank) const;
  std::optional<Time> time_of(const std::map<model::NodeName, Duration>& times,
                              const model::NodeName& node) const;
  void record_folder(const model::RunId& run, const std::string& folder);
  void check_gang_is_ready(const model::AttemptName& attempt) const;
  void excuse_cut_off(const model::Attempt& attempt);
  void excuse_unavailable_hosts(const model::Attempt& attempt);
  void declare_lost(const std::string& host);
  void give_up(const model::NodeName& node);
  void disown_unknown_nodes(const model::RunId& run);
  void disown(ProcessId id);
  bool is_superseded(const model::AttemptName& attempt) const;
  bool is_disowned(const model::AttemptName& attempt, int rank) const;
  void check_placement(const Commit& commit, const model::Node& node) const;
  void check_release(const model::Node& node) const;
  void check_name(const Commit& commit, const model::Attempt& attempt);
  void check_run(const Commit& commit, const model::Run& run);
  void check_cancelled(const Commit& commit, const model::Run& run);
  void check_success(const model::Run& run) const;
  void check_preempted(const model::Attempt& attempt) const;
  void check_ended(const model::Attempt& attempt) const;
  bool has_agent(const model::NodeName& node) const;
  bool is_abandoned(const model::NodeName& node) const;
  void check_final_run(const model::Run& run) const;
  bool timeout_suffices(const model::Run& run) const;
  std::int64_t preemptions_of(const model::RunId& run) const;

  SimContext& context_;
  const model::State& durable_;
  RunningTimes times_{context_};
  TransitionChecker transition_checker_{context_, durable_, times_};
  CauseChecker cause_checker_{context_, durable_};
  PreemptionChecker preemption_checker_;
  HostChecker host_checker_{context_, durable_};
  BudgetChecker budget_checker_{context_, durable_};
  PlacementChecker placement_checker_{context_, durable_};
  std::map<ProcessId, Process> processes_;
  std::map<model::RunId, std::set<std::pair<model::AttemptName, int>>> ranks_;  // alive now
  std::map<model::AttemptName, std::set<int>> exited_well_;
  std::map<model::AttemptName, GangStart> gang_starts_;
  std::map<model::RunId, std::pair<int, model::AttemptName>> checkpoints_;  // step and attempt
  std::map<model::AttemptName, LaunchRecord> launched_;
  std::set<model::AttemptName> told_to_start_;           // by a daemon of any store
  std::map<model::NodeName, Duration> report_times_;     // on the timeline
  std::map<model::NodeName, Duration> kill_times_;       // likewise
  std::map<model::NodeName, Duration> agent_end_times_;  // likewise; its agent did
  std::set<model::AttemptName> checkpoint_writers_;      // of any checkpoint
  std::set<model::RunId> acknowledged_runs_;
  std::map<model::RunId, std::string>
      run_folders_;  // numbers that left the daemon, and the run's folder
  std::set<model::AttemptName> stoppable_orphans_;
  std::map<model::NodeName, Duration> orphans_to_stop_;  // on the timeline
  std::set<model::RunId> adoptable_;
  std::set<model::RunId> adopted_;  // by any store
  std::set<model::RunId> resumable_;
  std::set<model::RunId> stoppable_;
  std::map<model::RunId, std::int64_t>
      allowed_attempts_;  // attempts that its retries allow, with all resumptions
  std::map<model::RunId, std::int64_t> preemptions_;  // attempts that were preempted
  std::map<model::RunId, std::int64_t>
      renewed_retries_;  // retries granted again by newer checkpoints, at most
  std::set<model::RunId> disturbed_;
  std::set<std::string> cut_off_;                      // hosts
  std::map<std::string, Duration> unavailable_hosts_;  // with the last moment on the timeline
  // Removed as lost by an operator: their devices count as free, whatever still runs there.
  std::set<std::string> lost_hosts_;  // that have not joined since
  std::set<ProcessId> disowned_;      // processes of such hosts, and of nodes that were given up
  std::set<model::NodeName> given_up_;
  std::set<model::AttemptName> disowned_attempts_;
  std::map<model::AttemptName, std::map<int, Duration>>
      suspended_ranks_;                              // ranks, with the start on the timeline
  std::map<model::RunId, Duration> suspended_time_;  // by ranks that were suspended for a moment
};

}  // namespace lockstep::sim

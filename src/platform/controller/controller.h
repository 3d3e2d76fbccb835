// Controller: connects step() to the world. It persists the decisions of step(), then executes
// them: the rows are committed to the store, applied to the state in memory, and only then are
// agents launched or killed. It has no threads: every call comes from one thread, the server's
// loop.
//
//   auto controller = TRY(Controller::open({...}));
//   every 200 ms:        controller->tick();
//   on an agent's call:  Command command = TRY(controller->report(report));
//   at each turn of the loop while work is left:  controller->execute_effects();
//
// If a commit fails, nothing changes: the caller of submit(), stop(), resume() or report() gets the
// error, and the next tick repeats the decisions of a failed tick. Reports that could not be stored
// count as not received. So once commits succeed again, no agent counts as silent since before. If
// the daemon dies between a commit and its effects, the next daemon finds the missing launches from
// the state and the engine's list, and step() repeats the kills.
//
// Until the first answer of the engine, the controller only answers queries and receives reports.
// It starts and ends nothing, and refuses requests of users (Code::unavailable).
#pragma once

#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/rate_limited_log.h"
#include "base/steady_clock.h"
#include "platform/core/model/command.h"
#include "platform/core/model/ended_runs.h"
#include "platform/core/model/event.h"
#include "platform/core/model/state.h"
#include "platform/core/sched/policy.h"
#include "platform/core/step/decider.h"
#include "platform/core/step/starting/dry_run.h"
#include "platform/core/step/starting/incremental_scheduler.h"
#include "platform/core/step/step.h"
#include "platform/engine/engine.h"
#include "platform/host/keys.h"
#include "platform/store/history_store.h"
#include "platform/store/store.h"

namespace lockstep::controller {

struct ControllerSetup {
  store::Store& store;  // these four outlive the controller
  store::HistoryStore& history;
  engine::Engine& engine;
  const Clock& clock;
  const SteadyClock& steady;
  host::Keys keys;
  // The cluster at the start. If hosts join: only the parts that no host reports
  // (model/map_of_hosts.h).
  map::ClusterMap map;
  std::filesystem::path home;  // the daemon's folder, absolute
  sched::SchedulingPolicy policy = step::step_policy();
  model::Settings settings{};
  bool home_is_copy = false;  // the folder is not the one that was served last: maybe an older copy
  bool hosts_make_map = false;   // the hosts of the cluster are those that join
  std::string placing_engine{};  // the engine that chooses the hosts of its runs itself; or none
  // For the checkpoints of runs that name no folder: one that all hosts share, absolute; empty:
  // they are below the home of each host.
  std::filesystem::path shared{};
  // The value of a project's secret, for the ranks of its runs; an empty function: there are none.
  std::function<Result<std::string>(const std::string& project, const std::string& secret)>
      secret_value{};
};

// Commits since the start.
struct CommitCounters {
  std::int64_t stored = 0;
  std::int64_t refused = 0;  // the store had an error
  Duration time{};           // of all
};

class Controller {
 public:
  // The audit's record of a request. It is stored with the changes, and only if there are any. That
  // of a submission gets the run as its target.
  using Record = std::optional<model::AuditRecord>;
  // Called after a run, its attempt or a node of it changed. It may call state(), nothing else.
  using Watcher = std::function<void(const model::RunId& run, std::int64_t version)>;
  // The same for all rows of a commit.
  using ChangeWatcher = std::function<void(const std::vector<model::Change>& changes)>;

  // Loads the state and continues open work as soon as the engine has listed its nodes: launches
  // nodes that were reserved but not started.
  static Result<std::unique_ptr<Controller>> open(ControllerSetup setup);

  // If a run was submitted with this request id before, returns that run, so that a client can
  // repeat a call after a lost answer. Fails if the spec differs. Empty: repeats are not detected.
  Result<model::RunId> submit(model::RunSpec spec, model::Origin origin,
                              const std::string& request_id = {}, const Record& record = {},
                              model::ProjectKind kind = model::ProjectKind::shared);
  // Gives the agent of an external job its node; the same call again has the same answer.
  Result<model::NodeId> attach(model::AttachNode agent, const Record& record = {});
  // No effect on a run that has ended.
  Result<void> stop(const model::RunId& run, const std::string& reason, const Record& record = {});
  // Queues the run again, with its whole time limit and all its retries. Fails unless it failed,
  // timed out or was cancelled.
  Result<void> resume(const model::RunId& run, const Record& record = {});
  // Removes an ended run for good: its rows now, its files and reports by the janitor. Fails while
  // another run needs it.
  Result<void> remove(const model::RunId& run, const Record& record = {});
  // Requests by users and operators for waiting runs, hosts and limits: HoldRun, ReleaseRun,
  // SetPriority, SetHost, SetLimit, SetWeight; and StopOrphan, AdoptOrphan. Also of hosts that
  // join: AdmitHost, DescribeHost, RemoveHost.
  Result<void> apply_operator_event(const model::Event& event, const Record& record = {});
  // Dry run: where the run would start if it were submitted now, and what would be preempted.
  // Changes nothing.
  Result<step::DryRunResult> plan(const model::RunSpec& spec, const model::Origin& origin,
                                  model::ProjectKind kind = model::ProjectKind::shared);
  // Handles an agent's heartbeat; returns the agent's command. Reports of ended attempts get
  // `leave`.
  Result<model::Command> report(const model::NodeReport& report);
  // The same for several reports, in order, with one commit for all of them.
  std::vector<Result<model::Command>> report(std::span<const model::NodeReport> reports);
  // Users are told of a finding about the run, or about the project; one line.
  Result<void> report_finding(const std::string& project, const std::optional<model::RunId>& run,
                              std::string text);
  // Advances the time. Call it about every 200 ms; it asks the engine which nodes have terminated.
  // After a long gap no agent counts as silent, because the daemon could not receive heartbeats.
  void tick();
  // Executes pending effects, in order, for about 20 ms, at least one; each call above does so as
  // well. True: effects are left, so call it again after other work of the loop.
  bool execute_effects();

  // The open runs, and ended ones that were needed a short time ago.
  const model::State& state() const { return decider_.state(); }
  // Afterwards the state has the run until a later tick, if there is such a run.
  Result<void> fetch(const model::RunId& run);
  // From the store, newest first.
  Result<std::vector<model::Run>> list_runs(const model::RunFilter& filter) {
    return setup_.store.list_runs(filter);
  }
  // The waiting runs and the allocations, as of the last pass; empty before the engine's first
  // answer.
  const step::IncrementalScheduler& scheduler() const { return decider_.scheduler(); }
  // The engine has listed its nodes.
  bool is_ready() const { return ready_; }
  // Current failures, one line each, for operators.
  std::vector<std::string> problems() const { return problem_log_.active_failures(); }
  const CommitCounters& commits() const { return commits_; }
  // Facts that operators should know and may want to act on, one line each.
  std::vector<std::string> notices() const;
  void subscribe(Watcher watcher) { watchers_.push_back(std::move(watcher)); }
  void subscribe_changes(ChangeWatcher watcher) { change_watchers_.push_back(std::move(watcher)); }

  // The run's checkpoint folder. A relative path is below the home of each host.
  std::filesystem::path checkpoint_folder(const model::Run& run) const;

 private:
  std::vector<model::RunId> runs_in_same_folder(const std::filesystem::path& folder) const;
  Controller(ControllerSetup setup, model::State state, model::StoreHistory history);

  Result<void> identify_store();
  void save_history();
  void save_run_numbers(const std::vector<model::Change>& changes);
  Result<void> sync_clock();
  Result<void> fetch_named(const model::RunSpec& spec);
  void drop_old_runs();
  bool engine_retry_is_due() const;
  Result<void> connect_to_engine();
  Result<std::map<std::string, std::string>> secrets_of(const model::Run& run) const;
  void stop_unstartable();
  void submit_missing_gangs(const engine::EngineList& listed);
  bool may_be_younger(const model::Attempt& attempt, const engine::EngineList& listed) const;
  bool is_to_submit(const model::Attempt& attempt, const engine::EngineList& listed) const;
  void update_map(const engine::EngineList& listed);
  Result<void> update_hosts(const engine::EngineList& listed);
  Result<void> update_orphans(const engine::EngineList& listed);
  Result<void> take_back_nodes(const engine::EngineList& listed);
  void log_orphans() const;
  Result<void> resume_listening();
  Result<void> check_widespread_silence();
  Result<void> check_ready() const;
  Result<step::Outcome> process_event(const model::Event& event, const Record& record = {});
  Result<step::Outcome> process_events(std::span<const model::Event> events,
                                       const Record& record = {});
  Result<step::Outcome> commit_event(const model::Event& event);
  Result<step::Outcome> commit_events(std::span<const model::Event> events,
                                      const Record& record = {});
  Result<model::Command> command_of(const model::NodeReport& report);
  void update_costs(const std::vector<model::Change>& changes);
  Result<void> commit(const std::vector<model::Change>& changes);
  void record_store_result(const Result<void>& stored);
  void probe_store();
  void execute(const model::SubmitGang& effect);
  void execute(const model::KillNode& effect);
  void execute(const model::KillOrphan& effect);
  bool engine_poll_is_due(Duration interval) const;
  void poll_engine();
  Result<engine::EngineList> list_engine_nodes();
  std::vector<model::NodeId> awaited_nodes() const;
  void notify_watchers(const std::vector<model::Change>& changes) const;

  ControllerSetup setup_;
  step::Decider decider_;
  model::StoreHistory history_;
  CommitCounters commits_;
  bool history_saved_ = false;     // in its current state
  std::string older_copy_notice_;  // set if the store is an older copy
  const std::string boot_;         // boot id of the machine
  std::string costs_;              // costs of communication, for the ranks; empty: the map has none
  std::vector<Watcher> watchers_;
  std::vector<ChangeWatcher> change_watchers_;
  std::deque<model::Effect> effects_;       // committed, not yet carried out
  std::set<model::AttemptId> unsubmitted_;  // committed, but not submitted yet: their nodes are not
                                            // gone because the engine does not list them
  // Runs whose secrets are missing, and the reasons: they are stopped at the next tick.
  std::map<model::RunId, std::string> unstartable_;
  // Attempts of before this daemon: it is not known yet which of their nodes exist.
  std::set<model::AttemptId> unchecked_;
  bool ready_ = false;                  // the engine has listed its nodes
  Time listening_since_{};              // without a break
  Time on_time_since_{};                // no two ticks were far apart
  std::set<std::string> silent_hosts_;  // as of the last list of the engine
  bool unlisted_orphan_called_ =
      false;  // an agent of an unlisted orphan has called since the last poll of the engine
  bool commit_failed_ = false;  // since the last tick; may have been the commit of a report
  // By the steady clock:
  Duration pause_{};                          // between two polls of the engine, until it is ready
  std::optional<Duration> ticked_;            // the last tick
  std::optional<Duration> last_engine_poll_;  // the last poll of the engine
  Duration next_drop_{};                      // when ended runs are dropped from the state
  std::optional<Duration>
      store_refused_at_;  // when the store last refused a change; none: it accepts changes
  std::shared_ptr<const map::ClusterMap> seen_map_;  // of the last list; null: none
  std::vector<std::string> awaited_hosts_;           // whose new devices wait until none is used
  RateLimitedLog problem_log_;
};

}  // namespace lockstep::controller

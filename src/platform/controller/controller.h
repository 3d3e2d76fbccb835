// Controller: the shell around step(). It persists what step() decides, then does it: the rows are
// committed to the store, applied to the state in memory, and only then are agents launched or
// killed. It has no threads: every call comes from one thread, the server's loop.
//
//   auto controller = TRY(Controller::open({...}));
//   every 200 ms:        controller->tick();
//   on an agent's call:  Command command = TRY(controller->report(report));
//   at each turn of the loop while work is left:  controller->act();
//
// When a commit fails nothing has happened: the caller of submit(), stop(), resume() or report()
// gets the error, and what a tick decided is decided again at the next one. Reports that could not
// be stored count as unheard, so once commits succeed again nobody is silent since before. When the
// daemon dies between commit and effect, the next one finds by the state and by what the engine has
// what is left to launch, and step() asks again for kills.
//
// Until the engine has first said what is there, the controller only answers and hears agents: it
// starts and ends nothing, and users' wishes are refused (Code::unavailable).
#pragma once

#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/complaints.h"
#include "base/steady_clock.h"
#include "platform/core/model/command.h"
#include "platform/core/model/event.h"
#include "platform/core/model/state.h"
#include "platform/core/sched/policy.h"
#include "platform/core/step/prospect.h"
#include "platform/core/step/queue.h"
#include "platform/core/step/step.h"
#include "platform/engine/engine.h"
#include "platform/host/keys.h"
#include "platform/store/history_keeper.h"
#include "platform/store/store.h"

namespace lockstep {

struct ControllerSetup {
  Store& store;  // the four outlive the controller
  HistoryKeeper& history;
  Engine& engine;
  const Clock& clock;
  const SteadyClock& steady;
  Keys keys;
  Map map;                     // of the cluster, as it is now
  std::filesystem::path home;  // the daemon's folder, absolute
  SchedulingPolicy policy = step_policy();
  bool home_is_copy = false;  // another folder than was served last: maybe an older copy
};

class Controller {
 public:
  // Called after a run, its attempt or a node of it changed. May call state(), nothing else.
  using Watcher = std::function<void(const RunId& run, std::int64_t version)>;

  // Loads the state and takes up what was going on, as soon as the engine says what is there:
  // launches the nodes that were reserved but not started.
  static Result<std::unique_ptr<Controller>> open(ControllerSetup setup);

  // Under a request id that a run was submitted under before, answers that run: a call may be
  // repeated whose answer was lost. Refused if the spec is another. Empty: no repeat is recognized.
  Result<RunId> submit(RunSpec spec, Origin origin, const std::string& request_id = {});
  // Of a run that has ended: nothing happens.
  Result<void> stop(const RunId& run, const std::string& reason);
  // Queues it again, with its whole time-out and all its retries. Refused unless it failed, timed
  // out or was cancelled.
  Result<void> resume(const RunId& run);
  // What users and operators change of what waits: HoldRun, ReleaseRun, SetPriority, SetHost,
  // SetLimit, SetWeight; and StopOrphan, AdoptOrphan.
  Result<void> change(const Event& event);
  // What would become of the run if it were submitted now. Nothing changes.
  Result<Prospect> plan(const RunSpec& spec, const Origin& origin) const;
  // An agent's heartbeat; the answer is what it shall do. Reports of ended attempts are answered
  // with `leave`.
  Result<Command> report(const NodeReport& report);
  // Lets time pass. Call it every 200 ms or so; it asks the engine what is gone. After a long gap
  // nobody counts as silent: there was nobody to hear them.
  void tick();
  // Does what was decided, in that order, for 20 ms or so, at least one thing; each call above does
  // as well. True: more is left, so call it again once others had their turn.
  bool act();

  const State& state() const { return state_; }
  // Who waits and who holds devices, as the last pass left it; empty before the engine has said
  // what is there.
  const Queue& queue() const { return queue_; }
  // The engine has said what is there.
  bool is_ready() const { return ready_; }
  // What goes wrong just now, a line each, for operators.
  std::vector<std::string> troubles() const { return complaints_.current(); }
  // What operators should know and may want to do something about, a line each.
  std::vector<std::string> notices() const;
  void subscribe(Watcher watcher) { watchers_.push_back(std::move(watcher)); }

  // Where the run's checkpoints are: its own wish, or a folder below the daemon's.
  std::filesystem::path checkpoint_folder(const Run& run) const;

 private:
  std::vector<RunId> same_folder(const std::filesystem::path& folder) const;
  Controller(ControllerSetup setup, State state, History history);

  Result<void> identify_store();
  void keep_history();
  void keep_numbers(const std::vector<Change>& changes);
  Result<void> follow_clock();
  bool time_to_ask() const;
  Result<void> take_up();
  void launch_what_is_missing(const std::vector<Present>& there);
  Result<void> see_orphans(const std::vector<Present>& there);
  Orphan orphan_of(const Present& present) const;
  void log_orphans() const;
  Result<void> listen_again();
  Result<void> check_ready() const;
  Result<std::vector<Change>> handle(const Event& event);
  Result<std::vector<Change>> decide(const Event& event);
  Result<std::vector<Change>> take(const Event& event);
  Result<void> commit(const std::vector<Change>& changes);
  void note(const Result<void>& stored);
  void probe_store();
  void carry_out(const LaunchNode& effect);
  void carry_out(const KillNode& effect);
  void carry_out(const KillOrphan& effect);
  void kill(const NodeName& node);
  Result<void> launch(const Node& node);
  bool time_to_look() const;
  void look();
  Result<std::vector<Present>> ask_engine();
  Launch launch_of(const Node& node) const;
  void notify(const std::vector<Change>& changes) const;

  ControllerSetup setup_;
  State state_;
  History history_;
  bool history_kept_ = false;  // as it is now
  std::string older_copy_;     // that the store is one; empty: it is not
  Queue queue_;                // of that state
  const std::string boot_;     // of the machine
  std::string costs_;  // of communication, for the ranks; empty: the map says nothing of them
  std::vector<Watcher> watchers_;
  std::deque<Effect> effects_;  // committed, not yet carried out
  std::set<NodeId> launching_;  // committed, their launch not yet tried: not gone if not listed
  bool ready_ = false;          // the engine has said what is there
  Time listening_since_{};      // without a break
  bool stranger_called_ =
      false;              // since the last look, the agent of an orphan that it has not listed
  bool unheard_ = false;  // a commit failed since the last tick, maybe that of a report
  // By the steady clock:
  Duration pause_{};                 // between two questions to the engine, until it is ready
  std::optional<Duration> ticked_;   // the last tick
  std::optional<Duration> looked_;   // when the engine was last asked
  std::optional<Duration> refused_;  // when the store last took no change; none: it takes them
  Complaints complaints_;
};

}  // namespace lockstep

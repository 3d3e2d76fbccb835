// Truth: what really happened in the world, whatever the daemon believes: which processes live
// where, how their ranks ended, what reached the shared disk. It checks the daemon's durable
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
#include "platform/engine/launch.h"
#include "sim/causes.h"
#include "sim/departures.h"
#include "sim/ledger.h"
#include "sim/program.h"
#include "sim/running_times.h"
#include "sim/scene.h"

namespace lockstep::sim {

using ProcessId = std::int64_t;  // unlike real ones, never used again

struct Process {
  NodeId node;
  std::string generation;
  std::string host;
  std::vector<int> devices;
  bool is_agent = true;
  NodeName name() const { return {generation, node}; }
};

class Truth {
 public:
  // interval: between checkpoints, as far as who is paused has to have run.
  Truth(Scene& scene, const State& durable, const Map& map, Duration interval)
      : scene_(scene), durable_(durable), map_(map), departures_(scene, durable, interval) {}

  // An agent, with all that it starts, or what a dead one left behind.
  void process_began(ProcessId id, Process process);
  void process_ended(ProcessId id);
  void rank_began(const AttemptName& attempt, int rank);
  void rank_ended(const AttemptName& attempt, int rank, RankState state, int code);
  // The run's steps up to `step` are safe on the shared disk.
  void checkpointed(const AttemptName& attempt, int step);
  int checkpoint_of(const RunId& run) const;

  // SIGSTOP to a rank that has taken a step, or not; and SIGCONT. Both come from outside.
  void rank_stopped(const Launch& launch, int rank, bool has_stepped);
  void rank_continued(const Launch& launch, int rank);

  // An agent takes so long to start its ranks; and it has, after all.
  void starts_late(const Launch& launch, Duration late);
  void has_started_late(const Launch& launch, Duration late);
  // An agent ends its ranks as their time is up, though nobody told it that those of all nodes ran.
  void gives_up(const Launch& launch);
  // A rank ends, after it ran for so long since its agent was last answered.
  void ran_unattended(const Launch& launch, Duration alone) const;
  // An agent ends ranks by force that it never asked to end; and it goes, both as it is told.
  void ends_unasked(const NodeName& node) const;
  void leaves(const NodeName& node) const;

  // The engine is asked for this.
  void launching(const Launch& launch);
  void killing(const NodeName& node);
  // An agent's words reach the daemon; it took in those that arrived then, and has answered.
  void said(const NodeReport& report);
  void taken(const NodeReport& report, Duration arrived);
  // The rows are about to become durable.
  void committing(std::span<const Change> changes);
  // An agent is answered so.
  void answered(const NodeReport& report, const Command& command) const;
  // The user was told that his run is there.
  void promised(const RunId& run);
  // The user asks, and may not be heard. What he asked for in vain does not come later.
  void asks_to_resume(const RunId& run);
  void has_asked_to_resume(const RunId& run) { resumable_.erase(run); }
  void asks_to_stop(const RunId& run);
  // The user was told that it is being stopped.
  void promised_to_stop(const RunId& run) const;

  // An operator has the orphans of the run end, or adopted, and may not be heard.
  void asks_to_stop_orphans(const RunId& run);
  void promised_to_stop_orphans(const RunId& run);
  void asks_to_adopt(const RunId& run) { adoptable_.insert(run); }
  void has_asked_to_adopt(const RunId& run) { adoptable_.erase(run); }
  bool was_adopted(const RunId& run) const { return adopted_.contains(run); }
  // Another store has taken the place of this one.
  void store_replaced(const State& before);
  // Of a store that was replaced, and not of this one: an operator was obeyed who had them end.
  // When that was; on the timeline.
  const std::map<AttemptName, Duration>& stopped_orphans() const { return orphans_to_stop_; }
  bool lives(const AttemptName& attempt) const;

  // A fault that may rightly cost the run an attempt, or make it end otherwise than its program.
  void touch(const RunId& run);
  void touch(const AttemptName& attempt);
  void touch_all();
  // One that ends the attempt, if it alone befalls it.
  void befalls(const AttemptName& attempt, Blow blow);
  // When the faults are over and the world has come to rest: all promises are kept.
  void judge_the_end() const;

  // A process of the node does; a rank of it does.
  bool lives(const NodeName& node) const;
  bool has_ranks(const Node& node) const;
  // When words of it were last taken in, and when the engine was last asked to kill it.
  std::optional<Time> last_word(const NodeName& node) const { return time_of(words_, node); }
  std::optional<Time> last_kill(const NodeName& node) const { return time_of(kills_, node); }
  // When its agent ended, of which there is none any more.
  std::optional<Time> agent_ended(const NodeName& node) const;
  // The daemon knows of all its ranks how they ended: its agent is not missed.
  bool has_told_all(const NodeName& node) const;
  static bool has_told_all(const State& store, const NodeName& node);

 private:
  struct Launched {
    std::set<int> nodes{};
    std::int64_t order = 0;  // among all attempts
    Duration time_left{};    // of its run's time-out
  };
  struct Beginning {
    Duration first{};  // rank of the attempt, on the timeline
    Duration last{};
    int ranks = 0;
  };

  std::optional<Time> time_of(const std::map<NodeName, Duration>& times,
                              const NodeName& node) const;
  void give(const RunId& run, const std::string& folder);
  void check_gang_is_there(const AttemptName& attempt) const;
  void check_placement(const Commit& commit, const Node& node) const;
  void check_release(const Node& node) const;
  void check_name(const Commit& commit, const Attempt& attempt);
  void check_run(const Commit& commit, const Run& run);
  void check_cancelled(const Commit& commit, const Run& run);
  void check_success(const Run& run) const;
  void check_leaving(const Attempt& attempt) const;
  void check_ended(const Attempt& attempt) const;
  bool has_agent(const NodeName& node) const;
  bool is_given_up(const NodeName& node) const;
  void check_end_of(const Run& run) const;
  bool has_time(const Run& run) const;
  std::int64_t displaced_of(const RunId& run) const;

  Scene& scene_;
  const State& durable_;
  const Map& map_;
  RunningTimes times_{scene_};
  Ledger ledger_{scene_, durable_, times_, map_};
  Causes causes_{scene_, durable_};
  Departures departures_;
  std::map<ProcessId, Process> processes_;
  std::map<RunId, std::set<std::pair<AttemptName, int>>> ranks_;  // alive now
  std::map<AttemptName, std::set<int>> exited_well_;
  std::map<AttemptName, Beginning> began_;
  std::map<RunId, std::pair<int, AttemptName>> checkpoints_;  // step, and whose it is
  std::map<AttemptName, Launched> launched_;
  std::map<NodeName, Duration> words_;  // on the timeline
  std::map<NodeName, Duration> kills_;  // likewise
  std::map<NodeName, Duration> ended_;  // likewise; its agent did
  std::set<AttemptName> writers_;       // of any checkpoint
  std::set<RunId> promised_;
  std::map<RunId, std::string> given_;  // numbers that left the daemon, and the run's folder
  std::set<AttemptName> stoppable_orphans_;
  std::map<AttemptName, Duration> orphans_to_stop_;  // on the timeline
  std::set<RunId> adoptable_;
  std::set<RunId> adopted_;  // by any store
  std::set<RunId> resumable_;
  std::set<RunId> stoppable_;
  std::map<RunId, std::int64_t> granted_;  // attempts that its retries allow, with all resumptions
  std::map<RunId, std::int64_t> displaced_;  // attempts that had to make room for others
  std::map<RunId, std::int64_t> renewed_;    // retries granted again by newer checkpoints, at most
  std::set<RunId> touched_;
  std::map<AttemptName, std::map<int, Duration>> standing_;  // ranks, since when on the timeline
  std::map<RunId, Duration> held_up_;  // by ranks that stood still for a moment
};

}  // namespace lockstep::sim

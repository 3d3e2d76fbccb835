// Operators hold runs and change their priority, close hosts and limit projects and users, and
// later undo each of these. The seed chooses the actions, as it chooses faults.
//
// To add an action, write a member function that does it and schedules its undo, and add a line to
// kinds().
#pragma once

#include <functional>
#include <span>
#include <string>

#include "sim/checks/ground_truth.h"
#include "sim/faults/seeded_random.h"
#include "sim/world/daemon.h"

namespace lockstep::sim {

class Operators {
 public:
  Operators(SimContext& context, Daemon& daemon, GroundTruth& truth, const model::State& durable,
            const map::ClusterMap& map, std::uint64_t seed)
      : context_(context),
        daemon_(daemon),
        truth_(truth),
        durable_(durable),
        map_(map),
        random_(seed, "operators"),
        orphan_random_(seed, "orphans") {}

  void begin();
  // Stops all actions and undoes them as soon as the daemon accepts.
  void stop_and_undo();

 private:
  struct Kind {
    const char* name;
    Duration mean;  // between two of them
    void (Operators::*act)();
  };
  static std::span<const Kind> kinds();
  void plan(const Kind& kind);

  void hold_a_run();
  void set_a_priority();
  void extend_a_run();
  void close_a_host();
  void limit_a_project();
  void limit_a_user();
  void set_project_weight();

  void schedule_orphan_handling();
  void handle_orphan();
  void stop_orphans(const model::RunId& run);
  void adopt_orphans(const model::RunId& run);

  bool request_change(const model::Event& event, const std::string& what);
  void limit(const model::LimitId& id);
  // Repeats the undo until the daemon accepts it.
  void undo_after(Duration duration, const model::Event& event, const std::string& what);
  void undo_all();

  SimContext& context_;
  Daemon& daemon_;
  GroundTruth& truth_;
  const model::State& durable_;
  const map::ClusterMap& map_;
  SeededRandom random_;
  SeededRandom orphan_random_;
  bool stopped_ = false;
};

}  // namespace lockstep::sim

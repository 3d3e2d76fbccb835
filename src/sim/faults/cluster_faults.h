// Faults of a cluster that others use too, and of its controller, chosen by the seed: only in seeds
// whose engine chooses the hosts. As in FaultInjector, each kind comes at its own moments, and each
// seed has some of them.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "sim/world/daemon.h"
#include "sim/world/placing_engine.h"

namespace lockstep::sim {

class ClusterFaults {
 public:
  struct FaultParts {
    SimContext& context;
    CrashPoints& crash_points;
    Daemon& daemon;
    SharedCluster& cluster;
    PlacingEngine& engine;
    GroundTruth& truth;
  };

  ClusterFaults(const FaultParts& parts, std::uint64_t seed)
      : parts_(parts), random_(seed, "cluster faults") {}

  void begin();
  void stop_and_undo();

 private:
  struct Kind {
    const char* name;
    Duration mean;  // between two of them
    void (ClusterFaults::*strike)();
  };
  static std::span<const Kind> kinds();
  void plan(const Kind& kind);
  void undo_after(Duration duration, const char* over, std::function<void()> undo);

  void stop_controller();
  void degrade_calls();
  void cancel_job();
  void preempt_job();
  void fill_cluster();
  void crash_daemon_after_submission();
  void end_any_job(const char* what, const std::string& reason, model::EndBlame blame);

  const FaultParts parts_;
  SeededRandom random_;
  bool stopped_ = false;
};

}  // namespace lockstep::sim

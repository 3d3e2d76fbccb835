// PlacementChecker: the rules for runs whose hosts the engine chooses
// (docs/design/slurm-placement.md), against what the cluster really does. Without such a cluster it
// checks nothing.
#pragma once

#include <string>
#include <vector>

#include "platform/core/model/state.h"
#include "platform/engine/gang.h"
#include "sim/checks/scheduling_oracle.h"
#include "sim/sim_context.h"
#include "sim/world/commit.h"

namespace lockstep::sim {

class SharedCluster;

class PlacementChecker {
 public:
  PlacementChecker(SimContext& context, const model::State& durable)
      : context_(context), durable_(durable) {}

  void set_cluster(const SharedCluster& cluster, std::string engine) {
    cluster_ = &cluster;
    engine_ = std::move(engine);
  }

  // The rows are about to become durable.
  void check(const Commit& commit) const;
  // The engine gets this gang.
  void check_exclusions(const engine::Gang& gang) const;
  // After a tick that could be stored: no run waits that could be a job of the cluster.
  void check_queue(const model::State& state) const;
  // After each tick. `well`: no fault hinders the daemon, its engine or the cluster.
  void check_quiet(bool well);

 private:
  void check_new_attempt(const Commit& commit, const model::Attempt& attempt) const;
  void check_starts(const Commit& commit) const;
  void check_node(const model::Node& node) const;
  void check_loss(const Commit& commit, const model::Attempt& attempt) const;
  void check_shown(const model::Attempt& attempt) const;
  void check_shown_hosts(const model::Attempt& attempt) const;
  void check_no_stray_jobs() const;
  bool is_of_cluster(const std::string& host) const;
  bool is_quiet_since(Duration moment, Duration limit) const;

  SimContext& context_;
  const model::State& durable_;
  const SharedCluster* cluster_ = nullptr;
  std::string engine_;
  Duration checked_{};  // on the timeline: the last time
  Duration quiet_{};    // since then
};

}  // namespace lockstep::sim

// Invariants of the controller's rows, checked after each event. sim/checks/ground_truth.h checks
// the rows against the simulated hosts.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "platform/core/model/state.h"
#include "platform/core/sched/policy.h"
#include "sim/checks/ground_truth.h"
#include "sim/sim_context.h"

namespace lockstep::sim {

class InvariantChecker {
 public:
  InvariantChecker(SimContext& context, const GroundTruth& truth,
                   const sched::SchedulingPolicy& policy)
      : context_(context), truth_(truth), policy_(policy) {}

  // `state` is the controller's, `durable` is what a restart would load.
  void check(const model::State& state, const model::State& durable);
  // The new store may lack the rows of the replaced one, or have other versions of them.
  void store_replaced() { last_versions_.clear(); }
  // Call after a tick that could be stored. No run waits that could start, and no run must leave
  // without having been asked.
  void check_queue(const model::State& state);

 private:
  using Device = std::pair<std::string, int>;  // host and index

  void check_run(const model::State& state, const model::Run& run);
  void record_allocation(const std::string& host, const std::vector<int>& devices,
                         const model::NodeId& node, std::map<Device, model::NodeId>& held);
  void check_gang(const model::State& state, const model::Run& run, const model::Attempt& attempt,
                  std::map<Device, model::NodeId>& held);

  SimContext& context_;
  const GroundTruth& truth_;
  const sched::SchedulingPolicy policy_;
  struct LastVersion {
    std::int64_t epoch = 0;
    std::int64_t version = 0;
  };
  std::map<model::RunId, LastVersion> last_versions_;
};

}  // namespace lockstep::sim

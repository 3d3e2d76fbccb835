// Invariants of the controller's rows, whatever happens: they are checked after each event. What
// the rows must have to do with the world is in sim/truth.h.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "platform/core/model/state.h"
#include "platform/core/sched/policy.h"
#include "sim/scene.h"
#include "sim/truth.h"

namespace lockstep::sim {

class Invariants {
 public:
  Invariants(Scene& scene, const Truth& truth, const SchedulingPolicy& policy)
      : scene_(scene), truth_(truth), policy_(policy) {}

  // `state` is the controller's, `durable` what a restart would find.
  void check(const State& state, const State& durable);
  // What another store knew this one may not know, or know otherwise.
  void store_replaced() { seen_.clear(); }
  // After a tick that could be stored: nobody waits who could start, or has to leave who was not
  // asked to.
  void check_queue(const State& state);

 private:
  using Device = std::pair<std::string, int>;  // host and index

  void check_run(const State& state, const Run& run);
  void take(const std::string& host, const std::vector<int>& devices, const NodeId& node,
            std::map<Device, NodeId>& held);
  void check_gang(const State& state, const Run& run, const Attempt& attempt,
                  std::map<Device, NodeId>& held);

  Scene& scene_;
  const Truth& truth_;
  const SchedulingPolicy policy_;
  struct Seen {
    std::int64_t epoch = 0;
    std::int64_t version = 0;
  };
  std::map<RunId, Seen> seen_;
};

}  // namespace lockstep::sim

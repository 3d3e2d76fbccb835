// PassBackend: the platform's pass by itself decides, without controller, store or agents.
#pragma once

#include <span>
#include <vector>

#include "map/map.h"
#include "platform/core/sched/scheduler.h"
#include "sim/replay/replay.h"

namespace lockstep::sim {

// A cluster of equal hosts, a gang stays inside a pod.
struct ReplayCluster {
  int hosts = 64;
  int devices = 8;  // on each host
  int pod = 16;     // hosts in each pod; the last has those that are left
  int all_devices() const { return hosts * devices; }
};

Map map_of(const ReplayCluster& cluster);

// As many devices as the job asks for: on one host what fits there, else on whole hosts, and on one
// more what is left. In the order of the trace, arrived and limited as the pass is to see them.
std::vector<Want> wants_of(const JobTrace& trace, std::span<const Seconds> limits, int on_host);

// A job that the empty cluster could not hold, with its file and line.
Result<void> check_all_fit(const JobTrace& trace, std::span<const Want> wants, const Map& map);

class PassBackend : public Backend {
 public:
  PassBackend(const Map& map, const SchedulingPolicy& policy, std::vector<Want> wants)
      : scheduler_(map, policy), policy_(policy), wants_(std::move(wants)), since_(wants_.size()) {}

  Result<Decision> decide(Seconds now, std::span<const JobId> ended,
                          std::span<const JobId> arrived) override;

 private:
  Want& want(const RunId& run);
  Time& since(const RunId& run);
  bool carry_out(const Plan& plan, Time now, Decision& decision);
  void interrupt(const RunId& run, Time now);

  Scheduler scheduler_;
  const SchedulingPolicy policy_;
  std::vector<Want> wants_;  // as they stand: what is left of their limits, and of their moves
  std::vector<Time> since_;  // when those that run came to where they are
};

}  // namespace lockstep::sim

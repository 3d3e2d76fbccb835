// NaiveQueue: the rules of the queue (docs/design/scheduler.md), stated a second time for checks.
// It shares only the input types and the policy with the scheduler. It keeps no state, searches
// linearly, and counts free devices host by host.
//
// It answers questions about one state of the queue: the order, the head and its start, and whether
// a run may start. It chooses no hosts, moves and evicts no run, and ignores the runs' needs
// besides devices.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "platform/core/sched/oracle/cluster_capacity.h"
#include "platform/core/sched/plan.h"
#include "platform/core/sched/policy.h"

namespace lockstep::sched {

struct QueueState {
  std::vector<PendingRun> waiting{};
  std::vector<Allocation> allocations{};
  OperatorSettings settings{};
};

bool refuses_runs(model::HostState state);

// True if an engine chooses its hosts.
inline bool is_at_engine(const Allocation& allocation) {
  return !allocation.devices.empty() && allocation.devices.front().host.empty();
}

// The state of the host by the settings.
model::HostState host_state(const OperatorSettings& settings, const std::string& host);

// The state after the waiting run has started on these devices.
QueueState with_started(QueueState state, const Allocation& started);

class NaiveQueue {
 public:
  enum class Tier { debug_share, ordinary, preemptible };
  // The smaller key is ahead. Tier, the latest key of the runs of its project with a higher
  // priority, then the order among equal keys.
  using Key = std::tuple<Tier, Time, bool, int, Time, Time, model::RunId>;
  using Keys = std::map<model::RunId, Key>;
  using RunIds = std::set<model::RunId>;

  // more_devices: of hosts on which runs are not placed; they count in the debug share.
  NaiveQueue(const map::ClusterMap& map, const SchedulingPolicy& policy, int more_devices = 0)
      : capacity_(map), policy_(policy), devices_(capacity_.device_count() + more_devices) {}
  const ClusterCapacity& capacity() const { return capacity_; }

  Keys keys(const QueueState& state) const;
  std::vector<model::RunId> order(const QueueState& state) const;

  ClusterCapacity::FreeDevices free_devices(const QueueState& state) const;
  // False if the run fits only with closed hosts. Then it blocks no other run.
  bool can_be_placed(const QueueState& state, const PendingRun& run) const;
  // The first limit that the run exceeds beside the allocations of other runs: "project demo".
  static std::optional<std::string> exceeded_limit(const QueueState& state, const PendingRun& run);

  // The head: the first waiting run that the map can hold and no limit blocks, of all tiers or of
  // one. Null if there is none. The runs in `starting` are about to start and block no run.
  const PendingRun* head(const QueueState& state, const Keys& keys, const RunIds& starting = {},
                         std::optional<Tier> tier = {}) const;
  // The first moment at which the run fits and no limit blocks it, if all allocations end as
  // expected. Time{} means now; nothing means never. If the run is not preemptible, preemptible
  // runs count as gone `behind` after the runs that already leave: it has them evicted.
  std::optional<Time> earliest_start(const QueueState& state, const PendingRun& run,
                                     Duration behind = {}) const;
  // True if the head starts later, or a limit blocks it, because a run starts with the allocation.
  bool delays(const QueueState& state, const PendingRun& head, const Allocation& started) const;

  enum class Violation { head_fits, head_delayed };
  struct Conflict {
    const PendingRun* head = nullptr;
    Violation violation{};
  };
  // Why a run of `starting` may not start with this allocation; nothing if it may.
  std::optional<Conflict> conflict(const QueueState& state, const Keys& keys,
                                   const RunIds& starting, const Allocation& started) const;
  // The run may start now, on whichever hosts, if it ends by then; Time::max() if its end does not
  // matter.
  // Nothing if it does not fit, or a limit blocks it or a run that it would pass.
  std::optional<Time> latest_permitted_end(const QueueState& state, const Keys& keys,
                                           const PendingRun& run) const;

 private:
  Time own_key(const PendingRun& run) const;
  RunIds debug_share(const QueueState& state) const;
  // Adds devices to those of hosts that take runs.
  void add_devices(const QueueState& state, const std::vector<model::HostDevices>& devices,
                   int sign, ClusterCapacity::FreeDevices& free) const;
  bool exhausts_limit(const QueueState& state, const Keys& keys, const RunIds& starting,
                      const PendingRun& run) const;

  const ClusterCapacity capacity_;
  const SchedulingPolicy policy_;
  const int devices_;  // of all hosts
};

}  // namespace lockstep::sched

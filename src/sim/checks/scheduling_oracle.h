// SchedulingOracle checks the promises of the queue (docs/design/scheduler.md) on the rows of the
// store: a run that starts is ahead of the waiting runs or delays none of them, and no operator's
// limit is exceeded. sched::NaiveQueue states the rules; this class applies them to what became
// durable. It checks decisions and plans nothing.
//
// Runs that start in one commit are checked one after another: there must be an order in which each
// run, at its turn, is ahead of the head or does not delay it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "map/query.h"
#include "platform/core/sched/oracle/naive_queue.h"
#include "sim/world/commit.h"

namespace lockstep::sim {

struct QueueSnapshot {
  map::ClusterMap map{};         // the hosts on which Lockstep places runs
  map::ClusterMap engine_map{};  // those among which an engine chooses
  // Without the runs that start: these wait. A run that starts where devices were reserved for its
  // move has its allocation. A waiting run whose name an orphan still uses is left out.
  sched::QueueState before{};
  std::vector<sched::Allocation> starts{};   // in this commit
  std::vector<sched::Allocation> orphans{};  // and given-up nodes; among the allocations
};

// The rows after the commit, which starts some runs.
QueueSnapshot queue_snapshot_of(const model::State& durable, const Commit& commit);

class SchedulingOracle {
 public:
  explicit SchedulingOracle(const map::ClusterMap& map, const map::ClusterMap& engine_map = {})
      : queue_(map, sched::policies::kOursWithMoves,
               static_cast<int>(map::device_count(engine_map))) {}
  explicit SchedulingOracle(const QueueSnapshot& snapshot)
      : SchedulingOracle(snapshot.map, snapshot.engine_map) {}

  // The first violation among the runs that start; empty if there is none. PlacementChecker checks
  // the order of those that start at an engine among each other.
  std::optional<std::string> check_starts(const QueueSnapshot& snapshot) const;
  // Reports that the head starts later than before, whichever runs start. Accepted reasons are a
  // run that exceeds its time-out and a host that was closed or drained.
  std::optional<std::string> check_head_not_delayed(const QueueSnapshot& before,
                                                    const QueueSnapshot& after, Time now) const;
  // Call when no run starts any more: reports a waiting run that fits and would delay no other run.
  std::optional<std::string> check_no_run_idle(const QueueSnapshot& snapshot, Time now) const;

  // The runs that wait for devices, in queue order.
  std::vector<model::RunId> order(const QueueSnapshot& snapshot) const;
  sched::NaiveQueue::Keys keys(const QueueSnapshot& snapshot) const {
    return queue_.keys(snapshot.before);
  }
  struct Head {
    model::RunId run{};
    // The moment at which it fits; Time{} if it fits now.
    Time start{};
  };
  std::optional<Head> head(const QueueSnapshot& snapshot) const;

 private:
  std::optional<std::string> check_placement(const sched::QueueState& after,
                                             const sched::PendingRun& run,
                                             const sched::Allocation& started) const;
  // Why the run may not start now. The runs in `starting` block none.
  std::optional<std::string> find_conflict(const sched::QueueState& state,
                                           const sched::NaiveQueue::Keys& keys,
                                           const sched::NaiveQueue::RunIds& starting,
                                           const sched::Allocation& start) const;
  // By the runs that are left: the violation that was found for them before.
  using FailedOrders = std::map<sched::NaiveQueue::RunIds, std::string>;
  std::optional<std::string> check_start_order(const sched::QueueState& state,
                                               const std::vector<sched::Allocation>& starts,
                                               FailedOrders& failed_orders) const;

  const sched::NaiveQueue queue_;
};

}  // namespace lockstep::sim

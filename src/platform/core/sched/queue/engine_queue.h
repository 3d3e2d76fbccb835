// EngineQueue: the queue of runs whose hosts an engine chooses, such as Slurm in a partition that
// other jobs use too.
//
// The engine has a queue of its own, so this one only bounds what the engine gets. In the order of
// WaitingList each run starts that the open hosts of the map could hold, and that exceeds no limit
// of its project or user, until `runs_max` runs have started. A run that cannot start blocks no
// other run. Nothing is reserved, moved or evicted.
//
// A placement has a node's devices without a host. A run counts from its start until
// remove_allocation(), whether the engine lets it wait or runs it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "map/map.h"
#include "platform/core/sched/capacity/device_allocator.h"
#include "platform/core/sched/queue/accounts.h"
#include "platform/core/sched/queue/waiting_list.h"
#include "platform/core/sched/run_queue.h"

namespace lockstep::sched {

class EngineQueue : public RunQueue {
 public:
  // Keeps no reference to map and policy, of which only the order and the debug share count.
  EngineQueue(const map::ClusterMap& map, const SchedulingPolicy& policy, int runs_max);
  EngineQueue(const EngineQueue&) = delete;  // its members refer to one another
  EngineQueue& operator=(const EngineQueue&) = delete;

  void add_pending(const PendingRun& pending) override;
  void remove_pending(const model::RunId& run) override;
  void add_allocation(const Allocation& allocation) override;
  void set_expected_end(const model::RunId& run, Time expected_end) override;
  void remove_allocation(const model::RunId& run) override;
  void set_host(const std::string& host, model::HostState state, std::string why) override;
  void set_limits(const Limits& limits) override { accounts_.set(limits); }

  Plan schedule(Time now) override;
  std::optional<model::RunId> head() const override;
  std::vector<WaitingRun> waiting() const override;
  // None is known: the engine decides.
  std::vector<std::optional<Time>> start_estimates() const override;

 private:
  using Entry = WaitingList::Entry;
  // A run that the engine has.
  struct Started {
    Accounts::AccountId account = 0;
    std::int64_t devices = 0;
    Time expected_end{};
    bool is_debug = false;
  };

  // In queue order, until `look` returns false.
  template <class Look>
  void visit(const Look& look) const;
  bool may_start(const Entry& entry) const;
  bool is_full() const { return static_cast<int>(started_.size()) >= runs_max_; }
  void start(const model::RunId& run, const Started& started);
  WaitingRun explain(const Entry& entry) const;
  std::optional<model::RunId> next_to_end() const;

  const SchedulingPolicy policy_;
  const int runs_max_;
  const HostTable table_;
  Accounts accounts_;
  DeviceAllocator hosts_;        // for their states: nothing is allocated
  mutable WaitingList waiting_;  // sorts itself when it is read
  std::map<model::RunId, Started> started_;
  std::int64_t debug_devices_ = 0;  // of started debug runs
};

}  // namespace lockstep::sched

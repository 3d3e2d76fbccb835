// WaitingList: the waiting runs in queue order. The pass iterates over one array of plain numbers;
// it looks up everything else of a run on demand. The accounts store names once.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <boost/container_hash/hash.hpp>
#include <boost/unordered/unordered_flat_map.hpp>

#include "platform/core/sched/capacity/engine_capacity.h"
#include "platform/core/sched/capacity/gang_scopes.h"
#include "platform/core/sched/policy.h"
#include "platform/core/sched/queue/accounts.h"

namespace lockstep::sched {

// The sort key of a run; among runs of one tier a smaller key is ahead. It depends on the policy's
// order, in microseconds; see policy.h.
std::int64_t order_key(const SchedulingPolicy& policy, Time arrived, Duration timeout, int share);
inline std::int64_t order_key(const SchedulingPolicy& policy, const PendingRun& pending) {
  return order_key(policy, pending.arrived, pending.time_limit + pending.time_used,
                   pending.fair_share_used);
}

class WaitingList {
 public:
  struct Entry {
    std::int64_t key = 0;  // its own, or a later one of a run of its project with a higher priority
    Duration time_limit{};
    Time arrived{};
    std::int64_t number = 0;  // of run(), within the account's project
    int tier = 0;             // smaller is ahead, whatever the keys: kDebugTier etc.
    int shape = 0;            // index for gang()
    int slot = 0;             // index of its row
    Accounts::AccountId account = 0;
  };
  static constexpr int kDebugTier = 0, kNormalTier = 1, kPreemptibleTier = 2, kTierCount = 3;

  // All must outlive it. engine: null if the scheduler places all runs.
  WaitingList(const HostTable& table, const Accounts& accounts, const SchedulingPolicy& policy,
              const EngineCapacity* engine = nullptr);
  WaitingList(const WaitingList&) = delete;  // its order refers to it
  WaitingList& operator=(const WaitingList&) = delete;

  void add(const PendingRun& pending, Accounts::AccountId account);
  void remove(const model::RunId& run);
  bool contains(const model::RunId& run) const { return find(run).has_value(); }
  std::size_t size() const { return rows_.size() - free_slots_.size(); }
  std::span<const Entry> entries();
  // Removes the entries at these positions of entries(), ascending.
  void remove_at(const std::vector<std::size_t>& positions);

  const std::string& project(const Entry& entry) const { return accounts_.project(entry.account); }
  model::RunId run(const Entry& entry) const {
    return {accounts_.project(entry.account), entry.number};
  }
  // The run as it was added, composed from its parts.
  PendingRun pending_run(const Entry& entry) const;
  // Its scopes are those of the last entries().
  const Gang& gang(const Entry& entry) const { return gangs_[as_index(entry.shape)]; }
  // Sets whether the host takes runs from now on.
  void set_host_open(int host, bool open);
  // The state of one of the engine's hosts has changed.
  void engine_host_changed() { engine_hosts_changed_ = true; }
  const EngineCapacity* engine() const { return engine_; }
  // All hosts have so many, with those of the engine.
  std::int64_t devices() const { return devices_; }

  // How many runs of each shape wait, by shape number; 0 for unused numbers.
  const std::vector<int>& count_by_shape() const { return counts_; }

 private:
  struct Row {
    Entry entry;  // as in entries_
    Duration time_used{};
    int fair_share_used = 100;
    int priority = 0;
    int moves_left = 0;
    model::RunClass run_class = model::RunClass::normal;
    bool may_pause = false;
  };
  struct StartsFirst {
    const WaitingList* list;
    bool operator()(const Entry& a, const Entry& b) const;
  };

  const Row& row(const Entry& entry) const { return rows_[as_index(entry.slot)]; }
  // The project's number in the accounts, and the run's number in the project.
  using RunKey = std::pair<std::size_t, std::int64_t>;
  RunKey key_of(const Entry& entry) const {
    return {accounts_.project_number(entry.account), entry.number};
  }
  std::int64_t own_key(const Row& row) const;
  std::optional<int> find(const model::RunId& run) const;
  int tier_of(model::RunClass run_class) const;
  int take_slot();
  void apply_priorities();
  int shape_number(const Shape& shape);
  Gang gang_of(const Shape& shape) const;
  void remove_row(const Entry& entry);
  void sort_added();
  void update_gangs();

  const SchedulingPolicy policy_;
  const Accounts& accounts_;
  const EngineCapacity* const engine_;  // null: none
  const std::int64_t devices_;          // of all hosts
  GangScopes scopes_;
  std::vector<Row> rows_;  // by slot
  std::vector<int> free_slots_;
  boost::unordered_flat_map<RunKey, int, boost::hash<RunKey>> by_run_;  // slots
  std::vector<Gang> gangs_;                                             // by shape number
  std::vector<int> counts_;                                             // by shape number
  std::vector<int> free_shapes_;
  std::map<Shape, int> by_shape_;  // shape numbers of waiting runs
  std::vector<Entry> entries_;
  std::size_t sorted_ = 0;  // entries in order; those behind them were added since
  int with_priority_ = 0;   // runs whose priority is not 0
  // No run has had a priority since the last apply_priorities(): every key is the run's own.
  bool keys_decide_ = true;
  bool priorities_applied_ = true;
  // The hosts on which gangs may be placed have changed since the last entries().
  bool scopes_changed_ = false;
  bool engine_hosts_changed_ = false;
};

}  // namespace lockstep::sched

// WaitingList: who waits, in the order in which they shall start. What the pass walks over is one
// array of plain numbers; everything else of a run is looked up when it matters. Names are kept
// once, by accounts: a hundred thousand runs take thirteen megabytes.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "platform/core/sched/accounts.h"
#include "platform/core/sched/policy.h"
#include "platform/core/sched/room.h"
#include "platform/core/sched/slot_index.h"
#include "platform/core/sched/sorted.h"

namespace lockstep {

// What a run's place in the order depends on: the smaller stands ahead, among runs of one rank. By
// the policy's order, in microseconds; see policy.h.
std::int64_t order_key(const SchedulingPolicy& policy, Time arrived, Duration timeout, int share);
inline std::int64_t order_key(const SchedulingPolicy& policy, const Want& want) {
  return order_key(policy, want.arrived, want.limit + want.used, want.share);
}

class WaitingList {
 public:
  struct Entry {
    std::int64_t key = 0;  // its own, or a later one of its project's with a higher priority
    Duration limit{};
    Time arrived{};
    std::int64_t number = 0;  // of run(), within the account's project
    int rank = 0;             // the smaller stands ahead, whatever the keys: kLane and so on
    int shape = 0;            // of gang()
    int slot = 0;             // of want()
    Accounts::Number account = 0;
  };
  static constexpr int kLane = 0, kOrdinary = 1, kPreemptible = 2, kRanks = 3;

  // Both outlive it.
  WaitingList(const HostTable& table, const Accounts& accounts, const SchedulingPolicy& policy);
  WaitingList(const WaitingList&) = delete;  // its order looks into it
  WaitingList& operator=(const WaitingList&) = delete;

  void add(const Want& want, Accounts::Number account);
  // So many will be added.
  void reserve(std::size_t count);
  void remove(const RunId& run);
  bool contains(const RunId& run) const { return find(run).has_value(); }
  std::size_t size() const { return rows_.size() - free_slots_.size(); }
  std::span<const Entry> entries();
  // Takes out those at these positions of entries(), ascending.
  void remove_at(const std::vector<std::size_t>& positions);

  const std::string& project(const Entry& entry) const { return accounts_.project(entry.account); }
  RunId run(const Entry& entry) const { return {accounts_.project(entry.account), entry.number}; }
  // As it was added: put together from its parts.
  Want want(const Entry& entry) const;
  const Gang& gang(const Entry& entry) const { return gangs_[as_index(entry.shape)]; }
  // Whether the host takes anybody, from now on.
  void set_open(int host, bool open);

  // How many wait of each shape, by its number; 0 also for numbers that no shape has.
  const std::vector<int>& count_by_shape() const { return counts_; }

 private:
  struct Row {
    Entry entry;  // as it stands in entries_
    Duration used{};
    int share = 100;
    int priority = 0;
    int moves_left = 0;
    RunClass run_class = RunClass::normal;
    bool may_pause = false;
  };
  struct Ahead {
    const WaitingList* list;
    bool operator()(const Entry& a, const Entry& b) const;
    static std::uint64_t prefix(const Entry& entry);
  };

  const Row& row(const Entry& entry) const { return rows_[as_index(entry.slot)]; }
  std::size_t hash_of_run(const Entry& entry) const;
  std::int64_t own_key(const Row& row) const;
  std::optional<int> find(const RunId& run) const;
  int rank_of(RunClass run_class) const;
  int take_slot();
  void stand_behind_priorities();
  int shape_number(const Shape& shape);
  Reach reach_for(const Shape& shape) const;
  void forget(const Entry& entry);

  const SchedulingPolicy policy_;
  const Accounts& accounts_;
  const Room empty_;       // all hosts open
  Room open_;              // empty, too, but for hosts that are closed
  std::vector<Row> rows_;  // by slot
  std::vector<int> free_slots_;
  SlotIndex by_run_;         // their slots
  std::vector<Gang> gangs_;  // by shape number
  std::vector<int> counts_;  // likewise
  std::vector<int> free_shapes_;
  SlotIndex by_shape_;  // the numbers of those that wait
  SortedItems<Entry, Ahead> entries_;
  int with_priority_ = 0;  // runs whose priority is not 0
  // None has had a priority since they were rearranged: keys are their own, which decide alone.
  bool all_alike_ = true;
  bool rearranged_ = true;
};

}  // namespace lockstep

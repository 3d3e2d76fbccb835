// WaitingList: who waits, in the order in which they shall start. What the pass walks over is one
// array of plain numbers; everything else of a run is looked up when it matters.
#pragma once

#include <map>
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
    int rank = 0;   // the smaller stands ahead, whatever the keys: kLane and so on
    int shape = 0;  // of gang()
    int slot = 0;   // of want()
    Accounts::Number account = 0;
  };
  static constexpr int kLane = 0, kOrdinary = 1, kPreemptible = 2, kRanks = 3;

  WaitingList(const HostTable& table, const SchedulingPolicy& policy);
  WaitingList(const WaitingList&) = delete;  // its order looks into it
  WaitingList& operator=(const WaitingList&) = delete;

  void add(const Want& want, Accounts::Number account);
  // So many will be added.
  void reserve(std::size_t count);
  void remove(const RunId& run);
  bool contains(const RunId& run) const { return find(run).has_value(); }
  const std::vector<Entry>& entries();
  // Takes out those at these positions of entries(), ascending.
  void remove_at(const std::vector<std::size_t>& positions);

  const Want& want(const Entry& entry) const { return wants_[as_index(entry.slot)]; }
  // It is about to be looked at: those in order lie anywhere in memory.
  void fetch(const Entry& entry) const { __builtin_prefetch(&want(entry)); }
  const Gang& gang(const Entry& entry) const { return gangs_[as_index(entry.shape)]; }
  // Whether the host takes anybody, from now on.
  void set_open(int host, bool open);

  // How many wait of each shape, by its number; 0 also for numbers that no shape has.
  const std::vector<int>& count_by_shape() const { return counts_; }

 private:
  struct Ahead {
    const WaitingList* list;
    bool operator()(const Entry& a, const Entry& b) const;
    static std::uint64_t prefix(const Entry& entry);
  };

  std::optional<int> find(const RunId& run) const;
  int rank_of(const Want& want) const;
  int take_slot(const Want& want);
  void stand_behind_priorities();
  int shape_number(const Shape& shape);
  Reach reach_for(const Shape& shape) const;
  void forget(const Entry& entry);

  const SchedulingPolicy policy_;
  const Room empty_;            // all hosts open
  Room open_;                   // empty, too, but for hosts that are closed
  std::vector<Want> wants_;     // by slot
  std::vector<Entry> by_slot_;  // as they stand in entries_
  std::vector<int> free_slots_;
  SlotIndex by_run_;
  std::vector<Gang> gangs_;  // by shape number
  std::vector<int> counts_;  // likewise
  std::vector<int> free_shapes_;
  std::map<Shape, int> shape_numbers_;  // of those that wait
  SortedItems<Entry, Ahead> entries_;
  int with_priority_ = 0;  // runs whose priority is not 0
  bool rearranged_ = true;
};

}  // namespace lockstep

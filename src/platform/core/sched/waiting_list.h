// WaitingList: who waits, in the order in which they shall start. What the pass walks over is one
// array of plain numbers; everything else of a run is looked up when it matters.
#pragma once

#include <map>
#include <vector>

#include "platform/core/sched/policy.h"
#include "platform/core/sched/room.h"
#include "platform/core/sched/sorted.h"

namespace lockstep {

// What a run's place in the order depends on: the smaller stands ahead, among runs of one priority.
// By the policy's order, in microseconds; see policy.h.
std::int64_t order_key(const SchedulingPolicy& policy, const Want& want);

class WaitingList {
 public:
  struct Entry {
    std::int64_t key = 0;
    Duration limit{};
    int priority = 0;
    int shape = 0;  // of shapes()
    int slot = 0;   // of want()
  };
  WaitingList(const HostTable& table, const SchedulingPolicy& policy);
  WaitingList(const WaitingList&) = delete;  // its order looks into it
  WaitingList& operator=(const WaitingList&) = delete;

  void add(const Want& want);
  void remove(const RunId& run);
  bool contains(const RunId& run) const { return by_run_.contains(run); }
  const std::vector<Entry>& entries() { return entries_.items(); }
  // Takes out those at these positions of entries(), ascending.
  void remove_at(const std::vector<std::size_t>& positions);

  const Want& want(const Entry& entry) const { return wants_[as_index(entry.slot)]; }
  const Gang& gang(const Entry& entry) const { return gangs_[as_index(entry.shape)]; }
  // How many wait of each shape, by its number; 0 also for numbers that no shape has.
  const std::vector<int>& count_by_shape() const { return counts_; }

 private:
  struct Ahead {
    const WaitingList* list;
    bool operator()(const Entry& a, const Entry& b) const;
  };

  Entry entry_of(const Want& want, int slot, int shape) const;
  int shape_number(const Shape& shape);
  void forget(const Entry& entry);

  const SchedulingPolicy policy_;
  const Room empty_;
  std::vector<Want> wants_;  // by slot
  std::vector<int> free_slots_;
  std::map<RunId, Entry> by_run_;
  std::vector<Gang> gangs_;  // by shape number
  std::vector<int> counts_;  // likewise
  std::vector<int> free_shapes_;
  std::map<Shape, int> shape_numbers_;  // of those that wait
  SortedItems<Entry, Ahead> entries_;
};

}  // namespace lockstep

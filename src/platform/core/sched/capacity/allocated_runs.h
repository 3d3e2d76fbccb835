// AllocatedRuns: the runs that hold devices, in the order of their expected ends.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "platform/core/sched/capacity/device_allocator.h"
#include "platform/core/sched/capacity/slot_index.h"
#include "platform/core/sched/capacity/sorted_items.h"
#include "platform/core/sched/queue/accounts.h"

namespace lockstep {

struct AllocatedRun {
  HostAllocations allocations;  // first: what a reservation reads
  RunId run;
  Time expected_end{};
  int moves_left = 0;
  Time started{};
  RunClass run_class = RunClass::normal;
  Accounts::AccountId account = 0;
  Needs needs{};
  bool may_pause = false;
  std::int64_t queue_key = 0;  // its place in the queue order, from order_key()
  bool leaving = false;
  int priority = 0;
  std::optional<Time> last_checkpoint{};
  // For a run that is being moved: the devices reserved at its destination, apart from its own.
  bool is_move_destination = false;
};
std::int64_t device_count(const AllocatedRun& allocated_run);
// Any run that is not preemptible may evict it.
inline bool is_evictable(const AllocatedRun& allocated_run) {
  return allocated_run.run_class == RunClass::preemptible && !allocated_run.leaving;
}

class AllocatedRuns {
 public:
  // A run and its expected end; the pointer is valid until the run is removed.
  struct End {
    Time time{};
    const AllocatedRun* allocated_run = nullptr;
    std::int64_t number = 0;  // of its run: many end at once, and the runs are far apart in memory
  };

  AllocatedRuns() : ends_(EndsSooner{}) {}

  void add(AllocatedRun&& allocated_run);
  // Prepares for so many add() calls.
  void reserve(std::size_t count);
  // The run must hold devices.
  AllocatedRun remove(const RunId& run, bool arriving = false);
  bool contains(const RunId& run, bool arriving = false) const {
    return find(run, arriving).has_value();
  }
  // By their end, then by the number of their run.
  std::span<const End> by_end() { return ends_.items(); }

  // Sums over the runs of a class: their devices, and their number.
  std::int64_t devices_of(RunClass run_class) const { return class_sum(run_class).devices; }
  int count_of(RunClass run_class) const { return class_sum(run_class).runs; }
  int leaving() const { return leaving_; }
  // The expected end of the last run that was told to leave.
  std::optional<Time> last_leaving();
  // How many runs may be moved, or paused, as far as is known.
  int movable() const { return movable_; }
  int pausable() const { return pausable_; }

 private:
  struct EndsSooner {
    bool operator()(const End& a, const End& b) const;
    static std::uint64_t prefix(const End& end);
  };
  struct Sum {
    std::int64_t devices = 0;
    int runs = 0;
  };
  const Sum& class_sum(RunClass run_class) const {
    return sums_[static_cast<std::size_t>(run_class)];
  }
  void update_counts(const AllocatedRun& allocated_run, int sign);

  static constexpr std::size_t kBlock = 256;  // runs

  AllocatedRun& at(int slot) { return blocks_[as_index(slot) / kBlock][as_index(slot) % kBlock]; }
  const AllocatedRun& at(int slot) const {
    return blocks_[as_index(slot) / kBlock][as_index(slot) % kBlock];
  }
  std::optional<int> find(const RunId& run, bool arriving) const;
  int take_slot(AllocatedRun&& allocated_run);

  // By slot. Each block reserves kBlock at once, so runs never move in memory.
  std::vector<std::vector<AllocatedRun>> blocks_;
  std::vector<int> free_slots_;
  SlotIndex by_run_;
  SortedItems<End, EndsSooner> ends_;
  Sum sums_[3];  // by class
  int leaving_ = 0;
  int movable_ = 0;
  int pausable_ = 0;
};

}  // namespace lockstep

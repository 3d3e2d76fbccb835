// Holders: who holds which devices, in the order in which they are expected to end.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "platform/core/sched/accounts.h"
#include "platform/core/sched/floor.h"
#include "platform/core/sched/slot_index.h"
#include "platform/core/sched/sorted.h"

namespace lockstep {

struct Holder {
  TakenList taken;  // first: what a reservation reads
  RunId run;
  Time expected_end{};
  int moves_left = 0;
  Time started{};
  RunClass run_class = RunClass::normal;
  Accounts::Number account = 0;
  Needs needs{};
  bool may_pause = false;
  std::int64_t key = 0;  // by which it stood in the order, as order_key() has it
  bool leaving = false;
  int priority = 0;
  std::optional<Time> saved{};
  // Of one that is moved: what is kept for it where it goes. It holds the rest apart from this.
  bool arriving = false;
};
std::int64_t device_count(const Holder& holder);
// Any run that is not preemptible may have it leave.
inline bool is_evictable(const Holder& holder) {
  return holder.run_class == RunClass::preemptible && !holder.leaving;
}

class Holders {
 public:
  // Of a holder, by when it ends; the pointer lives until the holder is removed.
  struct End {
    Time time{};
    const Holder* holder = nullptr;
    std::int64_t number = 0;  // of its run: many end at once, and holders lie far apart
  };

  Holders() : ends_(Sooner{}) {}

  void add(Holder&& holder);
  // So many will be added.
  void reserve(std::size_t count);
  // It holds devices.
  Holder remove(const RunId& run, bool arriving = false);
  bool contains(const RunId& run, bool arriving = false) const {
    return find(run, arriving).has_value();
  }
  // By their end, then by the number of their run.
  std::span<const End> by_end() { return ends_.items(); }

  // Of those of a class: what they hold together, and how many they are.
  std::int64_t devices_of(RunClass run_class) const { return of(run_class).devices; }
  int count_of(RunClass run_class) const { return of(run_class).runs; }
  int leaving() const { return leaving_; }
  // When the last of those who were told to leave is expected to have gone.
  std::optional<Time> last_leaving();
  // How many may be moved, or paused, as far as is told.
  int movable() const { return movable_; }
  int pausable() const { return pausable_; }

 private:
  struct Sooner {
    bool operator()(const End& a, const End& b) const;
    static std::uint64_t prefix(const End& end);
  };
  struct Sum {
    std::int64_t devices = 0;
    int runs = 0;
  };
  const Sum& of(RunClass run_class) const { return sums_[static_cast<std::size_t>(run_class)]; }
  void count(const Holder& holder, int sign);

  static constexpr std::size_t kBlock = 256;  // holders

  Holder& at(int slot) { return blocks_[as_index(slot) / kBlock][as_index(slot) % kBlock]; }
  const Holder& at(int slot) const {
    return blocks_[as_index(slot) / kBlock][as_index(slot) % kBlock];
  }
  std::optional<int> find(const RunId& run, bool arriving) const;
  int take_slot(Holder&& holder);

  // By slot; each block has room for kBlock from the first on, so they stay where they are.
  std::vector<std::vector<Holder>> blocks_;
  std::vector<int> free_slots_;
  SlotIndex by_run_;
  SortedItems<End, Sooner> ends_;
  Sum sums_[3];  // by class
  int leaving_ = 0;
  int movable_ = 0;
  int pausable_ = 0;
};

}  // namespace lockstep

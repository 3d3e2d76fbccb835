// AllocatedRuns: the runs that hold devices, in the order of their expected ends.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "platform/core/sched/capacity/device_allocator.h"
#include "platform/core/sched/queue/accounts.h"

namespace lockstep::sched {

struct AllocatedRun {
  HostAllocations allocations;
  model::RunId run;
  Time expected_end{};
  int moves_left = 0;
  Time started{};
  model::RunClass run_class = model::RunClass::normal;
  Accounts::AccountId account = 0;
  model::Needs needs{};
  bool may_pause = false;
  std::int64_t queue_key = 0;  // its place in the queue order, from order_key()
  bool leaving = false;
  int priority = 0;
  std::optional<Time> last_checkpoint{};
  // Devices whose hosts an engine chooses: they are not among the allocations.
  std::int64_t devices_at_engine = 0;
  // For a run that is being moved: the devices reserved at its destination, apart from its own.
  bool is_move_destination = false;
};
std::int64_t device_count(const AllocatedRun& allocated_run);
inline bool is_at_engine(const AllocatedRun& allocated_run) {
  return allocated_run.devices_at_engine > 0;
}
// Any run that is not preemptible may evict it.
inline bool is_evictable(const AllocatedRun& allocated_run) {
  return allocated_run.run_class == model::RunClass::preemptible && !allocated_run.leaving &&
         !is_at_engine(allocated_run);
}

class AllocatedRuns {
 public:
  // A run and its expected end; the pointer is valid until the run is removed.
  struct End {
    Time time{};
    const AllocatedRun* allocated_run = nullptr;
    bool operator<(const End& other) const;
  };
  using Ends = std::set<End>;

  AllocatedRuns() = default;
  AllocatedRuns(const AllocatedRuns&) = delete;  // its ends point into it
  AllocatedRuns& operator=(const AllocatedRuns&) = delete;

  void add(AllocatedRun&& allocated_run);
  // The run must hold devices.
  AllocatedRun remove(const model::RunId& run, bool arriving = false);
  bool contains(const model::RunId& run, bool arriving = false) const {
    return runs_.contains({run, arriving});
  }
  // By their end, then by the number of their run.
  const Ends& by_end() const { return ends_; }

  // Sums over the runs of a class: their devices, and the number of those that are not at the
  // engine.
  std::int64_t devices_of(model::RunClass run_class) const { return class_sum(run_class).devices; }
  int count_of(model::RunClass run_class) const { return class_sum(run_class).runs; }
  // Those that were told to leave. A job that ends at the engine frees no devices of the map.
  int leaving() const { return leaving_; }
  int at_engine() const { return at_engine_; }
  // The expected end of the last run that is leaving().
  std::optional<Time> last_leaving() const;
  // How many runs may be moved, or paused, as far as is known.
  int movable() const { return movable_; }
  int pausable() const { return pausable_; }

 private:
  struct Sum {
    std::int64_t devices = 0;
    int runs = 0;
  };
  const Sum& class_sum(model::RunClass run_class) const {
    return sums_[static_cast<std::size_t>(run_class)];
  }
  void update_counts(const AllocatedRun& allocated_run, int sign);

  std::map<std::pair<model::RunId, bool>, AllocatedRun> runs_;  // with is_move_destination
  Ends ends_;
  Sum sums_[3];  // by class
  int leaving_ = 0;
  int at_engine_ = 0;
  int movable_ = 0;
  int pausable_ = 0;
};

}  // namespace lockstep::sched

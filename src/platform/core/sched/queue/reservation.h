// Reservation: when a waiting run, a head, can start if all runs that hold devices run to their
// expected end, and whether another run can start now without delaying it. (EASY backfill: Lifka,
// "The ANL/IBM SP scheduling system", 1995.)
//
// Runs are released on a copy of the capacity in the order of their ends, those of one time
// together. The head's start is the first time at which it fits. A backfilled run that may still
// run then must leave enough of the free devices for the head.
//
// A head that may evict preemptible runs counts on their devices at any time, as if these runs had
// left already. So none of them delays its start, however long it may run, and no other run is
// backfilled because of them. But if the head fits once the preempted runs have left, these devices
// are reserved, and no further run is evicted.
//
// Example: of two devices one is held until 12:00, the other by a preemptible run until 20:00. A
// head of both starts at 12:00; a preemptible one at 20:00.
//
// A second head is computed after the first, which takes its devices at its start and holds them
// for its time limit. Backfilled runs never delay the first head. They may delay a later one, if
// the first gets other devices than predicted.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "platform/core/sched/capacity/allocated_runs.h"

namespace lockstep::sched {

class Reservation {
 public:
  // The head must fit into the map but not into the capacity; `allocated_runs` hold all allocated
  // devices. `limit`: how long the head runs. `evicts`: the current time if it may evict
  // preemptible runs; none if it may not. `earlier`: reservations of the heads ahead of it.
  Reservation(const FreeCapacity& capacity, const Gang& head, Duration limit,
              AllocatedRuns& allocated_runs, std::optional<Time> evicts,
              std::span<const Reservation> earlier = {});

  // An expected end, which is in the past if that run is overdue; or `evicts`, if no other run has
  // to end.
  Time start() const { return start_; }
  // The run whose end lets the head fit at that time. None if it is the end of an earlier head.
  const std::optional<model::RunId>& blocker() const { return blocker_; }
  // True if the head still fits at its start without these hosts; then they are subtracted.
  bool try_backfill(const Shape& shape, std::span<const int> hosts);
  // Undoes a successful try_backfill().
  void undo_backfill(const Shape& shape, std::span<const int> hosts);

 private:
  struct HeadEvent;
  struct Future;
  static std::vector<HeadEvent> head_events(std::span<const Reservation> earlier);
  void evict(Future& ahead, Time when);
  void advance_to_next_end(Future& ahead);
  void change(int host, const NodeResources& load, int sign);
  bool head_fits() const;
  void release(const AllocatedRun& allocated_run);

  FreeCapacity free_capacity_;  // at the head's start
  Gang head_;
  Duration limit_;
  int fitting_pods_ = 0;  // for a gang in one pod: the number of pods that fit it
  Time start_{};
  std::optional<model::RunId> blocker_;
};

}  // namespace lockstep::sched

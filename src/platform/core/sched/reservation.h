// Reservation: when a run that has to wait, a head, can start if everybody who holds devices runs
// to his expected end, and whether another run can have devices from now on without delaying it.
// (EASY backfill: Lifka, "The ANL/IBM SP scheduling system", 1995.)
//
// The holders are released in the order of their ends, those of one moment together, on a copy of
// the room; the first moment at which the head fits is its start. A run that may still be there
// then must leave the head a place in what is free at that moment.
//
// A head that may have preemptible runs evicted counts on their devices whenever its time comes: it
// is as if they had gone already. So none of them puts its start off, however long it may run, and
// nobody else passes by that. But if it has its place once those have gone who were told to leave,
// that place is the one that is kept, and nobody is evicted besides.
//
// Example: of two devices one is held until 12:00, the other by a preemptible run until 20:00. A
// head of both starts at 12:00; a preemptible one at 20:00.
//
// A second head is reckoned behind the first, which takes its devices at its start and has them for
// as long as it may. The first is never put off by whom it lets pass; a later one may be, when the
// first goes elsewhere than was foreseen.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "platform/core/sched/holders.h"

namespace lockstep {

class Reservation {
 public:
  // The head does not fit into the room, but into the map; the holders hold all that is taken.
  // limit: how long it runs. evicts: since when it may have preemptible runs evicted, which is now;
  // none: it may not. earlier: of those ahead of it.
  Reservation(const Room& room, const Gang& head, Duration limit, Holders& holders,
              std::optional<Time> evicts, std::span<const Reservation> earlier = {});

  // An expected end, which is past when that holder is overdue; or `evicts`, if nobody else has to
  // end.
  Time start() const { return start_; }
  // Whose end it is: of several at that moment the one whose devices make it fit. Nobody's if it is
  // that of an earlier head.
  const std::optional<RunId>& blocker() const { return blocker_; }
  // Whether the head still has its place at its start if these hosts are taken; then they are.
  bool spare(const Shape& shape, std::span<const int> hosts);
  // What was spared is not taken.
  void unspare(const Shape& shape, std::span<const int> hosts);

 private:
  struct Change;
  struct Ahead;
  static std::vector<Change> changes_by(std::span<const Reservation> earlier);
  void evict(Ahead& ahead, Time when);
  void go_on(Ahead& ahead);
  void change(int host, const Load& load, int sign);
  bool head_fits() const;
  void release(const Holder& holder);

  Room room_;  // at the head's start
  Gang head_;
  Duration limit_;
  int fitting_pods_ = 0;  // for a gang in one pod: those that could take it
  Time start_{};
  std::optional<RunId> blocker_;
};

}  // namespace lockstep

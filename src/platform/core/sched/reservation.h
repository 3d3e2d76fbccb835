// Reservation: when the head can start if everybody who holds devices runs to his expected end, and
// whether another run can have devices from now on without delaying it. (EASY backfill: Lifka, "The
// ANL/IBM SP scheduling system", 1995.)
//
// The holders are released in the order of their ends, those of one moment together, on a copy of
// the room; the first moment at which the head fits is its start. A run that may still be there
// then must leave the head a place in what is free at that moment.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "platform/core/sched/holders.h"

namespace lockstep {

class Reservation {
 public:
  // The head does not fit into the room, but into the map; the holders hold all that is taken.
  Reservation(const Room& room, const Gang& head, Holders& holders);

  // An expected end; past when that holder is overdue.
  Time start() const { return start_; }
  // Whose end it is: of several at that moment the one whose devices make it fit.
  const RunId& blocker() const { return blocker_; }
  // Whether the head still has its place at its start if these hosts are taken; then they are.
  bool spare(const Shape& shape, std::span<const int> hosts);

 private:
  void change(int host, int by);
  bool head_fits() const;
  void release(const Holder& holder);

  Room room_;  // at the head's start
  Gang head_;
  int fitting_pods_ = 0;  // for a gang in one pod: those that could take it
  Time start_{};
  RunId blocker_;
};

}  // namespace lockstep

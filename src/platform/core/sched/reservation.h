// Reservation: when a run that has to wait, a head, can start if everybody who holds devices runs
// to his expected end, and whether another run can have devices from now on without delaying it.
// (EASY backfill: Lifka, "The ANL/IBM SP scheduling system", 1995.)
//
// The holders are released in the order of their ends, those of one moment together, on a copy of
// the room; the first moment at which the head fits is its start. A run that may still be there
// then must leave the head a place in what is free at that moment.
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
  // limit: how long it runs. earlier: of those ahead of it.
  Reservation(const Room& room, const Gang& head, Duration limit, Holders& holders,
              std::span<const Reservation> earlier = {});

  // An expected end; past when that holder is overdue.
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
  static std::vector<Change> changes_by(std::span<const Reservation> earlier);
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

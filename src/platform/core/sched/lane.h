// The lane: debug runs that stand ahead of everybody, as long as debug runs hold no more than their
// share of the devices. Those beyond it stand among the normal runs by their keys, behind equals.
#pragma once

#include <span>
#include <vector>

#include "platform/core/sched/holders.h"
#include "platform/core/sched/waiting_list.h"

namespace lockstep {

inline bool lane_has_room(const SchedulingPolicy& policy, const HostTable& table,
                          const Holders& holders, const Shape& shape) {
  const std::int64_t held = holders.devices_of(RunClass::debug) + device_count(shape);
  return held * 100 <= table.devices * policy.lane_percent;
}

// Looks at entries, which are sorted by rank and key, in the order in which they stand, until
// `look` is false. has_room: whether the lane has, for an entry of a debug run.
template <class HasRoom, class Look>
void in_turn(std::span<const WaitingList::Entry> entries, const HasRoom& has_room,
             const Look& look) {
  std::vector<const WaitingList::Entry*> beyond;
  auto next = entries.begin();
  for (; next != entries.end() && next->rank == WaitingList::kLane; ++next) {
    if (!has_room(*next))
      beyond.push_back(&*next);
    else if (!look(*next))
      return;
  }
  auto late = beyond.begin();
  while (late != beyond.end() || next != entries.end()) {
    const bool in_rank = next != entries.end() && next->rank == WaitingList::kOrdinary;
    const bool is_late = late != beyond.end() && !(in_rank && next->key <= (*late)->key);
    if (!look(is_late ? **late++ : *next++)) return;
  }
}

}  // namespace lockstep

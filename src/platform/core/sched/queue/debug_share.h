// The debug share: debug runs are ahead of all others while debug runs hold no more than their
// share of the devices. Debug runs beyond the share are among the normal runs by their keys, behind
// equal keys.
#pragma once

#include <span>
#include <vector>

#include "platform/core/sched/capacity/allocated_runs.h"
#include "platform/core/sched/queue/waiting_list.h"

namespace lockstep::sched {

inline bool debug_share_has_room(const SchedulingPolicy& policy, const WaitingList& waiting,
                                 const AllocatedRuns& allocated_runs, const Shape& shape) {
  const std::int64_t held = allocated_runs.devices_of(model::RunClass::debug);
  return (held + device_count(shape)) * 100 <= waiting.devices() * policy.debug_share_percent;
}

// Visits entries, which are sorted by tier and key, in queue order, until `look` returns false.
// `has_room` returns whether the debug share has capacity for an entry.
template <class HasRoom, class CheckedSum>
void visit_in_queue_order(std::span<const WaitingList::Entry> entries, const HasRoom& has_room,
                          const CheckedSum& look) {
  std::vector<const WaitingList::Entry*> beyond;
  auto next = entries.begin();
  for (; next != entries.end() && next->tier == WaitingList::kDebugTier; ++next) {
    if (!has_room(*next))
      beyond.push_back(&*next);
    else if (!look(*next))
      return;
  }
  auto late = beyond.begin();
  while (late != beyond.end() || next != entries.end()) {
    const bool in_tier = next != entries.end() && next->tier == WaitingList::kNormalTier;
    const bool is_late = late != beyond.end() && !(in_tier && next->key <= (*late)->key);
    if (!look(is_late ? **late++ : *next++)) return;
  }
}

}  // namespace lockstep::sched

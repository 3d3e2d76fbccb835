#include "platform/core/sched/waiting_list.h"

#include <algorithm>
#include <tuple>

namespace lockstep {

std::int64_t order_key(const SchedulingPolicy& policy, const Want& want) {
  const Duration arrived = want.arrived.time_since_epoch();
  const Duration timeout = want.limit + want.used;
  switch (policy.order) {
    case Order::arrival:
      return arrived.count();
    case Order::shortest:
      return timeout.count();
    case Order::aged:
      break;
  }
  const bool capped = policy.aging_cap > Duration(0);
  return (arrived + policy.aging * (capped ? std::min(timeout, policy.aging_cap) : timeout))
      .count();
}

WaitingList::WaitingList(const HostTable& table, const SchedulingPolicy& policy)
    : policy_(policy), empty_(table), entries_(Ahead{this}) {}

bool WaitingList::Ahead::operator()(const Entry& a, const Entry& b) const {
  if (a.priority != b.priority) return a.priority > b.priority;
  if (a.key != b.key) return a.key < b.key;
  const Want& first = list->want(a);
  const Want& second = list->want(b);
  return std::tie(first.arrived, first.run) < std::tie(second.arrived, second.run);
}

void WaitingList::add(const Want& want) {
  const int shape = shape_number(shape_of(want));
  ++counts_[as_index(shape)];
  int slot = static_cast<int>(wants_.size());
  if (free_slots_.empty()) {
    wants_.push_back(want);
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
    wants_[as_index(slot)] = want;
  }
  const Entry entry{order_key(policy_, want), want.limit, want.priority, shape, slot};
  const auto before = by_run_.size();
  by_run_.emplace_hint(by_run_.end(), want.run, entry);
  LS_CHECK(by_run_.size() == before + 1);  // it did not wait
  entries_.add(entry);
}

void WaitingList::remove(const RunId& run) {
  const auto found = by_run_.find(run);
  LS_CHECK(found != by_run_.end());
  const Entry entry = found->second;
  entries_.remove(entry);
  forget(entry);
}

void WaitingList::remove_at(const std::vector<std::size_t>& positions) {
  for (std::size_t position : positions) forget(entries_.items()[position]);
  entries_.remove_at(positions);
}

void WaitingList::forget(const Entry& entry) {
  by_run_.erase(want(entry).run);
  free_slots_.push_back(entry.slot);
  if (--counts_[as_index(entry.shape)] > 0) return;
  shape_numbers_.erase(gang(entry).shape);
  free_shapes_.push_back(entry.shape);
}

int WaitingList::shape_number(const Shape& shape) {
  if (const auto known = shape_numbers_.find(shape); known != shape_numbers_.end())
    return known->second;
  int number = static_cast<int>(gangs_.size());
  if (free_shapes_.empty()) {
    gangs_.emplace_back();
    counts_.push_back(0);
  } else {
    number = free_shapes_.back();
    free_shapes_.pop_back();
  }
  gangs_[as_index(number)] = {shape, reach_of(empty_, shape)};
  shape_numbers_.emplace(shape, number);
  return number;
}

}  // namespace lockstep

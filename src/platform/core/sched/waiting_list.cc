#include "platform/core/sched/waiting_list.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <string_view>
#include <tuple>
#include <utility>

namespace lockstep {

std::int64_t order_key(const SchedulingPolicy& policy, Time arrived, Duration timeout, int share) {
  const Duration since = arrived.time_since_epoch();
  switch (policy.order) {
    case Order::arrival:
      return since.count();
    case Order::shortest:
      return timeout.count();
    case Order::aged:
      break;
  }
  const bool capped = policy.aging_cap > Duration(0);
  const Duration counted = capped ? std::min(timeout, policy.aging_cap) : timeout;
  return (since + policy.aging * counted * share / 100).count();
}

WaitingList::WaitingList(const HostTable& table, const SchedulingPolicy& policy)
    : policy_(policy), empty_(table), open_(table), entries_(Ahead{this}) {}

bool WaitingList::Ahead::operator()(const Entry& a, const Entry& b) const {
  if (a.rank != b.rank) return a.rank < b.rank;
  if (a.key != b.key) return a.key < b.key;
  const Want& first = list->want(a);
  const Want& second = list->want(b);
  const auto turn = [&](const Want& want, int priority) {
    return std::tuple(-priority, order_key(list->policy_, want), want.arrived);
  };
  const auto turns = std::pair(turn(first, first.priority), turn(second, second.priority));
  return turns.first != turns.second ? turns.first < turns.second : first.run < second.run;
}

int WaitingList::rank_of(const Want& want) const {
  if (want.run_class == RunClass::preemptible) return kPreemptible;
  return want.run_class == RunClass::debug && policy_.lane_percent > 0 ? kLane : kOrdinary;
}

std::uint64_t WaitingList::Ahead::prefix(const Entry& entry) {
  constexpr int kKeyBits = 60;
  constexpr std::int64_t kKeyMost = (std::int64_t{1} << (kKeyBits - 1)) - 1;
  const auto key = std::clamp(entry.key, -kKeyMost, kKeyMost) + kKeyMost;
  return static_cast<std::uint64_t>(entry.rank) << kKeyBits | static_cast<std::uint64_t>(key);
}

std::optional<int> WaitingList::find(const RunId& run) const {
  return by_run_.find(hash_of(run), [&](int slot) { return wants_[as_index(slot)].run == run; });
}

int WaitingList::take_slot(const Want& want) {
  if (free_slots_.empty()) {
    wants_.push_back(want);
    by_slot_.emplace_back();
    return static_cast<int>(wants_.size()) - 1;
  }
  const int slot = free_slots_.back();
  free_slots_.pop_back();
  wants_[as_index(slot)] = want;
  return slot;
}

void WaitingList::add(const Want& want, Accounts::Number account) {
  LS_CHECK(!contains(want.run));
  const int shape = shape_number(shape_of(want));
  ++counts_[as_index(shape)];
  const int slot = take_slot(want);
  const Entry entry{order_key(policy_, want), want.limit, rank_of(want), shape, slot, account};
  by_slot_[as_index(slot)] = entry;
  by_run_.add(hash_of(want.run), slot);
  entries_.add(entry);
  with_priority_ += int{want.priority != 0};
  rearranged_ = rearranged_ && with_priority_ == 0;
}

void WaitingList::reserve(std::size_t count) {
  wants_.reserve(wants_.size() + count);
  by_slot_.reserve(by_slot_.size() + count);
  by_run_.reserve(count);
}

void WaitingList::remove(const RunId& run) {
  const auto slot = find(run);
  LS_CHECK(slot.has_value());
  const Entry entry = by_slot_[as_index(*slot)];
  entries_.remove(entry);
  forget(entry);
}

const std::vector<WaitingList::Entry>& WaitingList::entries() {
  if (!rearranged_) stand_behind_priorities();
  rearranged_ = true;
  return entries_.items();
}

// Each goes behind those of its project and rank that have a higher priority: it takes the latest
// of their keys, if its own is earlier. So nobody's priority moves a run of another project.
void WaitingList::stand_behind_priorities() {
  using Line = std::pair<int, std::string_view>;                       // rank and project
  std::map<Line, std::map<int, std::int64_t, std::greater<>>> latest;  // own keys, by priority
  const auto line_of = [&](const Entry& entry) {
    return Line(entry.rank, want(entry).run.project);
  };
  for (const Entry& entry : entries_.items()) {
    const std::int64_t own = order_key(policy_, want(entry));
    auto& key = latest[line_of(entry)].try_emplace(want(entry).priority, own).first->second;
    key = std::max(key, own);
  }
  for (auto& [line, keys] : latest)
    for (auto key = keys.begin(); key != keys.end(); ++key)
      if (key != keys.begin()) key->second = std::max(key->second, std::prev(key)->second);
  entries_.rearrange([&](Entry& entry) {
    const auto& keys = latest.at(line_of(entry));
    const auto same = keys.find(want(entry).priority);
    entry.key = order_key(policy_, want(entry));
    if (same != keys.begin()) entry.key = std::max(entry.key, std::prev(same)->second);
    by_slot_[as_index(entry.slot)] = entry;
  });
}

void WaitingList::remove_at(const std::vector<std::size_t>& positions) {
  for (std::size_t position : positions) forget(entries_.items()[position]);
  entries_.remove_at(positions);
}

void WaitingList::forget(const Entry& entry) {
  rearranged_ = rearranged_ && with_priority_ == 0;
  with_priority_ -= int{want(entry).priority != 0};
  by_run_.remove(hash_of(want(entry).run), entry.slot);
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
  gangs_[as_index(number)] = {shape, reach_for(shape)};
  shape_numbers_.emplace(shape, number);
  return number;
}

Reach WaitingList::reach_for(const Shape& shape) const {
  const bool plain = shape.needs == Needs{};  // most are, and rooms are large to copy
  const auto& needs = shape.needs;
  const Reach reach = plain ? reach_of(empty_, shape) : reach_of(seen_by(needs, empty_), shape);
  const Gang gang{shape, reach};
  const bool opens = plain ? open_.fits(gang) : seen_by(needs, open_).fits(gang);
  return can_be_placed(reach) && !opens ? Reach::closed : reach;
}

void WaitingList::set_open(int host, bool open) {
  if (open)
    open_.open(host);
  else
    open_.close(host);
  for (const auto& [shape, number] : shape_numbers_)
    gangs_[as_index(number)].reach = reach_for(shape);
}

}  // namespace lockstep

#include "platform/core/sched/queue/waiting_list.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

namespace lockstep::sched {
std::int64_t order_key(const SchedulingPolicy& policy, Time arrived, Duration timeout, int share) {
  const Duration since = arrived.time_since_epoch();
  switch (policy.order) {
    case QueueOrder::arrival:
      return since.count();
    case QueueOrder::shortest:
      return timeout.count();
    case QueueOrder::aged:
      break;
  }
  const bool capped = policy.aging_cap > Duration(0);
  const Duration counted = capped ? std::min(timeout, policy.aging_cap) : timeout;
  return (since + policy.aging * counted * share / 100).count();
}

WaitingList::WaitingList(const HostTable& table, const Accounts& accounts,
                         const SchedulingPolicy& policy, const EngineCapacity* engine)
    : policy_(policy),
      accounts_(accounts),
      engine_(engine),
      devices_(table.devices + (engine ? engine->table().devices : 0)),
      scopes_(table) {}

bool WaitingList::StartsFirst::operator()(const Entry& a, const Entry& b) const {
  if (a.tier != b.tier) return a.tier < b.tier;
  if (a.key != b.key) return a.key < b.key;
  if (!list->keys_decide_) {
    const auto turn = [&](const Entry& entry) {
      const Row& row = list->row(entry);
      return std::pair(-row.priority, list->own_key(row));
    };
    const auto turns = std::pair(turn(a), turn(b));
    if (turns.first != turns.second) return turns.first < turns.second;
  }
  if (a.arrived != b.arrived) return a.arrived < b.arrived;
  const auto& accounts = list->accounts_;
  return std::tie(accounts.project(a.account), a.number) <
         std::tie(accounts.project(b.account), b.number);
}

std::int64_t WaitingList::own_key(const Row& row) const {
  return order_key(policy_, row.entry.arrived, row.entry.time_limit + row.time_used,
                   row.fair_share_used);
}

int WaitingList::tier_of(model::RunClass run_class) const {
  if (run_class == model::RunClass::preemptible) return kPreemptibleTier;
  return run_class == model::RunClass::debug && policy_.debug_share_percent > 0 ? kDebugTier
                                                                                : kNormalTier;
}

std::optional<int> WaitingList::find(const model::RunId& run) const {
  const auto project = accounts_.project_number(run.project);
  if (!project) return std::nullopt;
  const auto found = by_run_.find({*project, run.number});
  return found == by_run_.end() ? std::nullopt : std::optional(found->second);
}

int WaitingList::take_slot() {
  if (free_slots_.empty()) {
    rows_.emplace_back();
    return static_cast<int>(rows_.size()) - 1;
  }
  const int slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

void WaitingList::add(const PendingRun& pending, Accounts::AccountId account) {
  const int shape = shape_number(shape_of(pending));
  ++counts_[as_index(shape)];
  const int slot = take_slot();
  const Entry entry{.key = order_key(policy_, pending),
                    .time_limit = pending.time_limit,
                    .arrived = pending.arrived,
                    .number = pending.run.number,
                    .tier = tier_of(pending.run_class),
                    .shape = shape,
                    .slot = slot,
                    .account = account};
  rows_[as_index(slot)] = {.entry = entry,
                           .time_used = pending.time_used,
                           .fair_share_used = pending.fair_share_used,
                           .priority = pending.priority,
                           .moves_left = pending.moves_left,
                           .run_class = pending.run_class,
                           .may_pause = pending.may_pause};
  const bool is_new = by_run_.emplace(key_of(entry), slot).second;
  LS_CHECK(is_new);
  entries_.push_back(entry);
  with_priority_ += int{pending.priority != 0};
  keys_decide_ = keys_decide_ && with_priority_ == 0;
  priorities_applied_ = priorities_applied_ && with_priority_ == 0;
}

PendingRun WaitingList::pending_run(const Entry& entry) const {
  const Row& row = this->row(entry);
  const Shape& shape = gang(entry).shape;
  return {.run = run(entry),
          .nodes = shape.nodes,
          .devices = shape.devices,
          .remainder = shape.remainder,
          .arrived = entry.arrived,
          .time_limit = entry.time_limit,
          .time_used = row.time_used,
          .priority = row.priority,
          .moves_left = row.moves_left,
          .may_pause = row.may_pause,
          .run_class = row.run_class,
          .user = accounts_.user(entry.account),
          .fair_share_used = row.fair_share_used,
          .needs = shape.needs};
}

void WaitingList::remove(const model::RunId& run) {
  const auto slot = find(run);
  LS_CHECK(slot.has_value());
  sort_added();
  const Entry entry = rows_[as_index(*slot)].entry;
  const auto found = std::ranges::lower_bound(entries_, entry, StartsFirst{this});
  LS_CHECK(found != entries_.end() && found->slot == *slot);
  entries_.erase(found);
  sorted_ = entries_.size();
  remove_row(entry);
}

std::span<const WaitingList::Entry> WaitingList::entries() {
  if (scopes_changed_ || engine_hosts_changed_) update_gangs();
  sort_added();
  if (!priorities_applied_) apply_priorities();
  priorities_applied_ = true;
  return entries_;
}

// Sorts the added entries and merges them. Most of them go near the back.
void WaitingList::sort_added() {
  if (sorted_ == entries_.size()) return;
  const StartsFirst less{this};
  const auto added = entries_.begin() + static_cast<std::ptrdiff_t>(sorted_);
  std::sort(added, entries_.end(), less);
  std::inplace_merge(std::upper_bound(entries_.begin(), added, *added, less), added, entries_.end(),
                     less);
  sorted_ = entries_.size();
}

// Moves each run behind those of its project and tier that have a higher priority: it takes the
// latest of their keys, if its own is earlier. So a priority never affects runs of other projects.
void WaitingList::apply_priorities() {
  using TierAndProject = std::pair<int, std::string_view>;  // tier and project
  std::map<TierAndProject, std::map<int, std::int64_t, std::greater<>>>
      latest;  // own keys, by priority
  const auto key_group_of = [&](const Entry& entry) {
    return TierAndProject(entry.tier, accounts_.project(entry.account));
  };
  for (const Entry& entry : entries_) {
    const std::int64_t own = own_key(row(entry));
    auto& key = latest[key_group_of(entry)].try_emplace(row(entry).priority, own).first->second;
    key = std::max(key, own);
  }
  for (auto& [key_group, keys] : latest)
    for (auto key = keys.begin(); key != keys.end(); ++key)
      if (key != keys.begin()) key->second = std::max(key->second, std::prev(key)->second);
  for (Entry& entry : entries_) {
    const auto& keys = latest.at(key_group_of(entry));
    Row& row = rows_[as_index(entry.slot)];
    const auto same = keys.find(row.priority);
    entry.key = own_key(row);
    if (same != keys.begin()) entry.key = std::max(entry.key, std::prev(same)->second);
    row.entry = entry;
  }
  std::ranges::sort(entries_, StartsFirst{this});
  keys_decide_ = with_priority_ == 0;
}

void WaitingList::remove_at(const std::vector<std::size_t>& positions) {
  if (positions.empty()) return;
  LS_CHECK(sorted_ == entries_.size());
  for (std::size_t position : positions) remove_row(entries_[position]);
  const auto at = [&](std::size_t position) {
    return entries_.begin() + static_cast<std::ptrdiff_t>(position);
  };
  auto kept = at(positions.front());
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const std::size_t next = i + 1 < positions.size() ? positions[i + 1] : entries_.size();
    kept = std::move(at(positions[i] + 1), at(next), kept);
  }
  entries_.erase(kept, entries_.end());
  sorted_ = entries_.size();
}

void WaitingList::remove_row(const Entry& entry) {
  priorities_applied_ = priorities_applied_ && with_priority_ == 0;
  with_priority_ -= int{row(entry).priority != 0};
  by_run_.erase(key_of(entry));
  free_slots_.push_back(entry.slot);
  if (--counts_[as_index(entry.shape)] > 0) return;
  by_shape_.erase(gang(entry).shape);
  free_shapes_.push_back(entry.shape);
}

int WaitingList::shape_number(const Shape& shape) {
  if (const auto known = by_shape_.find(shape); known != by_shape_.end()) return known->second;
  int number = static_cast<int>(gangs_.size());
  if (free_shapes_.empty()) {
    gangs_.emplace_back();
    counts_.push_back(0);
  } else {
    number = free_shapes_.back();
    free_shapes_.pop_back();
  }
  gangs_[as_index(number)] = gang_of(shape);
  by_shape_.emplace(shape, number);
  return number;
}

Gang WaitingList::gang_of(const Shape& shape) const {
  return {shape, scopes_.scope_of(shape),
          engine_ ? engine_->scope_of(shape) : PlacementScope::impossible};
}

void WaitingList::set_host_open(int host, bool open) {
  scopes_.set_host_open(host, open);
  scopes_changed_ = true;
}

// Once for all hosts that have changed since the last pass. Unused numbers get a new gang with
// their next shape.
void WaitingList::update_gangs() {
  for (std::size_t shape = 0; shape < gangs_.size(); ++shape) {
    Gang& gang = gangs_[shape];
    if (counts_[shape] == 0) continue;
    if (scopes_changed_) gang.scope = scopes_.scope_of(gang.shape);
    if (engine_hosts_changed_) gang.at_engine = engine_->scope_of(gang.shape);
  }
  scopes_changed_ = engine_hosts_changed_ = false;
}

}  // namespace lockstep::sched

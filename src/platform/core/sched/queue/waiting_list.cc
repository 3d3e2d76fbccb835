#include "platform/core/sched/queue/waiting_list.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

namespace lockstep {
namespace {

// Runs are mostly added in the order of their numbers.
constexpr std::int64_t kPrefetchRunsAhead = 16;

// Shapes with equal nodes and devices rarely differ in their needs.
std::size_t hash_of_shape(const Shape& shape) {
  constexpr std::uint64_t kPrime = 1'000'003;
  const std::uint64_t sizes = static_cast<std::uint64_t>(shape.nodes) * kPrime +
                              static_cast<std::uint64_t>(shape.remainder);
  return hash_of(sizes, static_cast<std::uint64_t>(shape.devices));
}

}  // namespace

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
                         const SchedulingPolicy& policy)
    : policy_(policy),
      accounts_(accounts),
      empty_(table),
      open_(empty_),
      entries_(StartsFirst{this}) {}

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

int WaitingList::tier_of(RunClass run_class) const {
  if (run_class == RunClass::preemptible) return kPreemptibleTier;
  return run_class == RunClass::debug && policy_.debug_share_percent > 0 ? kDebugTier : kNormalTier;
}

std::uint64_t WaitingList::StartsFirst::prefix(const Entry& entry) {
  constexpr int kKeyBits = 60;
  constexpr std::int64_t kKeyMost = (std::int64_t{1} << (kKeyBits - 1)) - 1;
  const auto key = std::clamp(entry.key, -kKeyMost, kKeyMost) + kKeyMost;
  return static_cast<std::uint64_t>(entry.tier) << kKeyBits | static_cast<std::uint64_t>(key);
}

std::optional<int> WaitingList::find(const RunId& run) const {
  return by_run_.find(hash_of(run), [&](int slot) {
    const Entry& entry = rows_[as_index(slot)].entry;
    return entry.number == run.number && accounts_.project(entry.account) == run.project;
  });
}

// The hash of run(entry).
std::size_t WaitingList::hash_of_run(const Entry& entry) const {
  return hash_of(accounts_.project_hash(entry.account), static_cast<std::uint64_t>(entry.number));
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
  // Assigned field by field: a temporary would be copied before its fields are written, which takes
  // a sixth longer.
  Row& row = rows_[as_index(slot)];
  row.entry = entry;
  row.time_used = pending.time_used;
  row.fair_share_used = pending.fair_share_used;
  row.priority = pending.priority;
  row.moves_left = pending.moves_left;
  row.run_class = pending.run_class;
  row.may_pause = pending.may_pause;
  const bool is_new = by_run_.add_new(hash_of_run(entry), slot, [&](int other) {
    const Entry& known = rows_[as_index(other)].entry;
    return known.number == pending.run.number &&
           accounts_.project(known.account) == pending.run.project;
  });
  LS_CHECK(is_new);
  entries_.add(entry);
  by_run_.prefetch(hash_of(accounts_.project_hash(account),
                           static_cast<std::uint64_t>(pending.run.number + kPrefetchRunsAhead)));
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

void WaitingList::reserve(std::size_t count) {
  rows_.reserve(rows_.size() + count);
  by_run_.reserve(count);
  entries_.reserve(count);
}

void WaitingList::remove(const RunId& run) {
  const auto slot = find(run);
  LS_CHECK(slot.has_value());
  const Entry entry = rows_[as_index(*slot)].entry;
  entries_.remove(entry);
  remove_row(entry);
}

std::span<const WaitingList::Entry> WaitingList::entries() {
  if (!priorities_applied_) apply_priorities();
  priorities_applied_ = true;
  return entries_.items();
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
  for (const Entry& entry : entries_.items()) {
    const std::int64_t own = own_key(row(entry));
    auto& key = latest[key_group_of(entry)].try_emplace(row(entry).priority, own).first->second;
    key = std::max(key, own);
  }
  for (auto& [key_group, keys] : latest)
    for (auto key = keys.begin(); key != keys.end(); ++key)
      if (key != keys.begin()) key->second = std::max(key->second, std::prev(key)->second);
  entries_.update_all([&](Entry& entry) {
    const auto& keys = latest.at(key_group_of(entry));
    Row& row = rows_[as_index(entry.slot)];
    const auto same = keys.find(row.priority);
    entry.key = own_key(row);
    if (same != keys.begin()) entry.key = std::max(entry.key, std::prev(same)->second);
    row.entry = entry;
  });
  keys_decide_ = with_priority_ == 0;
}

void WaitingList::remove_at(const std::vector<std::size_t>& positions) {
  for (std::size_t position : positions) remove_row(entries_.items()[position]);
  entries_.remove_at(positions);
}

void WaitingList::remove_row(const Entry& entry) {
  priorities_applied_ = priorities_applied_ && with_priority_ == 0;
  with_priority_ -= int{row(entry).priority != 0};
  by_run_.remove(hash_of_run(entry), entry.slot);
  free_slots_.push_back(entry.slot);
  if (--counts_[as_index(entry.shape)] > 0) return;
  by_shape_.remove(hash_of_shape(gang(entry).shape), entry.shape);
  free_shapes_.push_back(entry.shape);
}

int WaitingList::shape_number(const Shape& shape) {
  const std::size_t hash = hash_of_shape(shape);
  const auto is_it = [&](int known) { return gangs_[as_index(known)].shape == shape; };
  if (const auto known = by_shape_.find(hash, is_it)) return *known;
  int number = static_cast<int>(gangs_.size());
  if (free_shapes_.empty()) {
    gangs_.emplace_back();
    counts_.push_back(0);
  } else {
    number = free_shapes_.back();
    free_shapes_.pop_back();
  }
  gangs_[as_index(number)] = {shape, scope_for(shape)};
  by_shape_.add(hash, number);
  return number;
}

PlacementScope WaitingList::scope_for(const Shape& shape) const {
  const bool plain = shape.needs == Needs{};  // most are, and copies of the capacity are large
  const auto& needs = shape.needs;
  const PlacementScope scope = plain ? placement_scope_of(empty_, shape)
                                     : placement_scope_of(restricted_to(needs, empty_), shape);
  const Gang gang{shape, scope};
  const bool opens = plain ? open_.fits(gang) : restricted_to(needs, open_).fits(gang);
  return can_be_placed(scope) && !opens ? PlacementScope::hosts_closed : scope;
}

void WaitingList::set_host_open(int host, bool open) {
  if (open)
    open_.open(host);
  else
    open_.close(host);
  for (Gang& gang : gangs_) gang.scope = scope_for(gang.shape);
}

}  // namespace lockstep

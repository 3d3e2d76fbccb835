#include "train/recovery/recovery_plan.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/format.h"
#include "text/convert.h"
#include "text/json.h"

namespace lockstep::train {
namespace {

bool holds_state(const std::optional<MemberState>& state) {
  return state && !state->is_replacement;
}

// Any member that was present before: all of them know the same slots.
Result<MemberState> any_survivor(const MemberStates& states) {
  for (const auto& [member, state] : states)
    if (holds_state(state)) return *state;
  return Error{Code::not_found, "no rank is left that holds anything of the training"};
}

// The last step that any member has decided, and its norm. A member that is one behind has complete
// gradients. No member can be two behind, because every decision needs all of them.
Result<void> find_last_step(const MemberStates& states, RecoveryPlan& plan) {
  const MemberState* ahead = nullptr;
  for (const auto& [member, state] : states)
    if (holds_state(state) && (!ahead || state->decided_steps > ahead->decided_steps))
      ahead = &*state;
  LS_CHECK(ahead != nullptr);
  for (const auto& [member, state] : states) {
    if (!holds_state(state) || state->needs_checkpoint ||
        state->decided_steps == ahead->decided_steps)
      continue;
    if (state->decided_steps + 1 < ahead->decided_steps || !state->awaits_decision)
      return Error{Code::internal,
                   format("member {} has decided {} steps, another {}: their states cannot be "
                          "made one; go on from a checkpoint",
                          member, state->decided_steps, ahead->decided_steps)};
  }
  plan.decided_steps = ahead->decided_steps;
  plan.norm = ahead->norm;
  plan.optimizer_steps = ahead->optimizer_steps;
  const auto since = ahead->decided_steps - ahead->decided_steps_before;
  plan.step = ahead->step + since;
  plan.seed = ahead->seed;
  plan.cursor = ahead->cursor + since * ahead->global_batch;
  return {};
}

// Members by slot, without those that are lost or hold no state.
class SlotTable {
 public:
  SlotTable(const MemberState& before, const MemberStates& states)
      : shards_(static_cast<std::size_t>(before.shards)) {
    for (const auto member : before.slots) {
      const auto found = states.find(static_cast<int>(member));
      const bool here = found != states.end() && holds_state(found->second);
      members_by_slot_.push_back(here ? static_cast<int>(member) : kNoMember);
    }
  }

  // Complete replicas, then those that can be formed from the rest.
  std::vector<int> regrouped() const {
    std::vector<int> slots;
    std::vector<std::vector<int>> rest(shards_);  // by shard
    for (std::size_t first = 0; first < members_by_slot_.size(); first += shards_) {
      const std::vector replica(members_by_slot_.begin() + static_cast<long>(first),
                                members_by_slot_.begin() + static_cast<long>(first + shards_));
      if (std::count(replica.begin(), replica.end(), kNoMember) == 0) {
        slots.insert(slots.end(), replica.begin(), replica.end());
        continue;
      }
      for (std::size_t shard = 0; shard < shards_; ++shard)
        if (replica[shard] != kNoMember) rest[shard].push_back(replica[shard]);
    }
    const auto fewest = std::min_element(rest.begin(), rest.end(), [](auto& a, auto& b) {
                          return a.size() < b.size();
                        })->size();
    for (std::size_t i = 0; i < fewest; ++i)
      for (const auto& holders : rest) slots.push_back(holders[i]);
    return slots;
  }

  // As many as form whole groups, in their order; or one group of all if there are fewer.
  std::vector<int> whole_groups() const {
    std::vector<int> living;
    for (const int member : members_by_slot_)
      if (member != kNoMember) living.push_back(member);
    if (living.size() > shards_) living.resize(living.size() / shards_ * shards_);
    return living;
  }

  // The first shard that no member holds.
  std::optional<std::size_t> lost_shard() const {
    for (std::size_t shard = 0; shard < shards_; ++shard) {
      bool held = false;
      for (auto slot = shard; slot < members_by_slot_.size(); slot += shards_)
        held = held || members_by_slot_[slot] != kNoMember;
      if (!held) return shard;
    }
    return std::nullopt;
  }

 private:
  static constexpr int kNoMember = -1;
  std::size_t shards_;
  std::vector<int> members_by_slot_;
};

Result<RecoveryPlan> begin_plan(const MemberStates& states, const MemberState& before) {
  if (before.shards < 1 || before.slots.empty() ||
      before.slots.size() % static_cast<std::size_t>(before.shards) != 0)
    return Error{Code::corrupt, "a member reported slots that are no replicas"};
  RecoveryPlan plan;
  plan.shards = static_cast<int>(before.shards);
  TRY(find_last_step(states, plan));
  const std::set<std::int64_t> previous_members(before.slots.begin(), before.slots.end());
  for (const auto& [member, state] : states) {
    if (!state && previous_members.contains(member)) plan.lost.push_back(member);
    if (state && state->is_replacement) plan.replacements.push_back(member);
  }
  return plan;
}

// The state that no surviving member has in memory; nothing if it is complete.
std::optional<std::string> find_lost_state(const MemberStates& states, const MemberState& before,
                                           const SlotTable& slot_table) {
  if (!before.optimizer_replicated)
    return "every rank had a part of the optimizer's state of its own, and none is left of the "
           "lost one's";
  for (const auto& [member, state] : states)
    if (holds_state(state) && state->needs_checkpoint)
      return "another rank was lost while the state was read from storage";
  if (const auto shard = slot_table.lost_shard())
    return format("no living rank holds shard {} of {}", *shard, before.shards);
  return std::nullopt;
}

// A group of all ranks stays a group of all ranks when their number changes.
int group_size(const MemberState& before, std::size_t ranks) {
  const auto before_all = static_cast<std::int64_t>(before.slots.size());
  const auto all = static_cast<std::int64_t>(ranks);
  const bool over_all = before.shards == before_all && before.shards > 1;
  return static_cast<int>(over_all ? all : std::min(before.shards, all));
}

}  // namespace

std::string words_of(const MemberState& state) { return dump_json(to_json(state)); }

Result<MemberState> parse_member_state(const std::string& encoded) {
  return from_json<MemberState>(TRY(parse_json(encoded)));
}

std::optional<int> RecoveryPlan::slot_of(int member) const {
  const auto found = std::find(slots.begin(), slots.end(), member);
  if (found == slots.end()) return std::nullopt;
  return static_cast<int>(found - slots.begin());
}

int RecoveryPlan::reporting_member() const {
  const std::set<int> fresh(replacements.begin(), replacements.end());
  const auto found =
      std::find_if(slots.begin(), slots.end(), [&](int member) { return !fresh.contains(member); });
  LS_CHECK(found != slots.end());  // plans are made by surviving members
  return *found;
}

RecoveryPlan::Replicas RecoveryPlan::replicas_of(int shard) const {
  const std::set<int> fresh(replacements.begin(), replacements.end());
  Replicas replicas;
  for (int replica = 0, slot = shard; slot < static_cast<int>(slots.size());
       ++replica, slot += shards) {
    const bool lacks = fresh.contains(slots[static_cast<std::size_t>(slot)]);
    (lacks ? replicas.without_state : replicas.with_state).push_back(replica);
  }
  return replicas;
}

std::map<int, int> RecoveryPlan::senders(const std::vector<int>& host_of_slot) const {
  std::map<int, int> sender_of, serves, wire;  // by slot, by slot, by host: replacements
  const auto host = [&](int slot) { return host_of_slot.at(static_cast<std::size_t>(slot)); };
  const auto choose = [&](int replacement, const std::vector<int>& slots_with_state) {
    const auto load = [&](int slot) { return std::tuple(wire[host(slot)], serves[slot], slot); };
    const int sender =
        *std::min_element(slots_with_state.begin(), slots_with_state.end(),
                          [&](int one, int other) { return load(one) < load(other); });
    sender_of[replacement] = sender;
    ++serves[sender];
    if (host(sender) != host(replacement)) ++wire[host(sender)];
  };
  // Transfers within a host come first, so that the choice of the others knows which ranks are
  // busy.
  for (const bool within : {true, false})
    for (int shard = 0; shard < shards; ++shard) {
      const auto replicas = replicas_of(shard);
      if (replicas.without_state.size() > replicas.with_state.size()) continue;
      for (const int replica_without : replicas.without_state) {
        const int replacement = replica_without * shards + shard;
        if (sender_of.contains(replacement)) continue;
        std::vector<int> slots_with_state;
        for (const int replica_with : replicas.with_state)
          if (const int slot = replica_with * shards + shard;
              !within || host(slot) == host(replacement))
            slots_with_state.push_back(slot);
        if (!slots_with_state.empty()) choose(replacement, slots_with_state);
      }
    }
  return sender_of;
}

Result<RecoveryPlan> plan_to_shrink(const MemberStates& states) {
  const auto before = TRY(any_survivor(states));
  auto plan = TRY(begin_plan(states, before));
  const SlotTable slot_table(before, states);
  if (const auto what = find_lost_state(states, before, slot_table)) {
    if (!before.has_checkpoints)
      return Error{Code::not_found, *what + ", and the program names no folder of checkpoints"};
    plan.from_checkpoint = plan.reshards = true;
    plan.slots = slot_table.whole_groups();
    plan.shards = group_size(before, plan.slots.size());
  } else {
    plan.slots = slot_table.regrouped();
  }
  for (const auto& [member, state] : states)
    if (state && !plan.slot_of(member)) plan.leaving.push_back(member);
  return plan;
}

Result<RecoveryPlan> plan_to_reconnect(const MemberStates& states) {
  auto plan = TRY(plan_to_replace(states));
  plan.from_checkpoint = std::ranges::any_of(states, [](const auto& each) {
    return holds_state(each.second) && each.second->needs_checkpoint;
  });
  return plan;
}

Result<RecoveryPlan> plan_to_replace(const MemberStates& states) {
  const auto before = TRY(any_survivor(states));
  auto plan = TRY(begin_plan(states, before));
  plan.slots.assign(before.slots.begin(), before.slots.end());
  const SlotTable slot_table(before, states);
  const auto what = find_lost_state(states, before, slot_table);
  if (!what || plan.replacements.empty()) return plan;
  if (!before.has_checkpoints)
    return Error{Code::not_found, *what + ", and the program names no folder of checkpoints"};
  plan.from_checkpoint = true;
  return plan;
}

}  // namespace lockstep::train

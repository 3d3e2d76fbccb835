// The surviving members compute the recovery plan from the states that they sent each other: the
// member of each rank, and the step from which to continue. Pure, so that all get the same plan.
//
// A slot is a position in the mesh: slot = replica x shards + shard. A member that lives keeps its
// shard. Complete replicas stay together, in their order, because their ranks were placed close to
// each other. The other members that hold shards form as many more replicas as possible, with one
// holder of each shard in each.
//
// Example: shards = 2; members by slot: replica 0: 0 1; replica 1: 2 3; replica 2: 4 5. Members 1
// and 4 are lost. Replica 1 stays: 2 3. Members 0 (shard 0) and 5 (shard 1) form another: slots 2 3
// 0 5.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/record.h"

namespace lockstep::train {

// The state that a member sends to the others after a rank failure.
struct MemberState {
  bool is_replacement = false;  // it holds no state yet, and the other fields mean nothing

  std::vector<std::int64_t> slots = {};  // the member in each slot, before the failure
  std::int64_t shards = 1;
  bool optimizer_replicated = true;  // other replicas hold the same of the optimizer's state
  bool needs_checkpoint = false;     // its state is to come from storage: it may hold anything
  bool has_checkpoints = false;      // whether it knows of checkpoints
  bool lost_connection = false;      // it lost the connection to another member

  std::int64_t decided_steps = 0;  // steps
  bool awaits_decision = false;    // complete gradients wait for the next decision
  double norm = 0;                 // of the last decision
  std::int64_t optimizer_steps = 0;

  // At the beginning of a step that some decisions preceded.
  std::int64_t step = 0;
  std::int64_t decided_steps_before = 0;
  std::uint64_t seed = 0;
  std::int64_t cursor = 0;
  std::int64_t global_batch = 0;

  static constexpr auto fields() {
    return record<MemberState>(
        field("newcomer", &MemberState::is_replacement, "holds nothing yet"),
        field("seats", &MemberState::slots, "the member on each seat before the death"),
        field("shards", &MemberState::shards, "ranks of a replica"),
        field("copied", &MemberState::optimizer_replicated, "replicas hold equal optimizer state"),
        field("unread", &MemberState::needs_checkpoint, "its state is to come from storage"),
        field("storage", &MemberState::has_checkpoints, "it knows of checkpoints"),
        field("cut", &MemberState::lost_connection, "it lost the connection to another member"),
        field("decided", &MemberState::decided_steps, "steps that all have decided"),
        field("undecided", &MemberState::awaits_decision,
              "gradients are complete, the norm is not known"),
        field("norm", &MemberState::norm, "of the last decision"),
        field("optimizer_steps", &MemberState::optimizer_steps, "that were taken"),
        field("step", &MemberState::step, "of the training, when the broken step began"),
        field("decided_before", &MemberState::decided_steps_before, "when the broken step began"),
        field("seed", &MemberState::seed, "of the sampler"),
        field("cursor", &MemberState::cursor, "of the sampler, when the broken step began"),
        field("batch", &MemberState::global_batch, "samples of a step"));
  }
};

std::string words_of(const MemberState& state);
Result<MemberState> parse_member_state(const std::string& encoded);

// By member; empty for a lost member.
using MemberStates = std::map<int, std::optional<MemberState>>;

struct RecoveryPlan {
  std::vector<int> slots = {};  // the member in each: its new rank
  int shards = 1;
  std::vector<int> lost = {};          // members; without those that had left before
  std::vector<int> leaving = {};       // surviving members that fit into no replica
  std::vector<int> replacements = {};  // members
  // no other member holds a part that was lost: all read a checkpoint
  bool from_checkpoint = false;
  bool reshards = false;  // from a checkpoint, for fewer ranks: slots hold other shards

  std::int64_t decided_steps = 0;  // of the last complete step
  double norm = 0;                 // for a member that has not taken it yet
  std::int64_t optimizer_steps = 0;
  std::int64_t step = 0;  // of the training, after it
  std::uint64_t seed = 0;
  std::int64_t cursor = 0;

  // Nothing for a member without a slot.
  std::optional<int> slot_of(int member) const;
  // The member that reports the recovery: the one on the lowest slot that was present before.
  int reporting_member() const;
  // The replicas that hold a shard and those that lack it, whose ranks are replacements; ascending.
  struct Replicas {
    std::vector<int> with_state = {};
    std::vector<int> without_state = {};
  };
  Replicas replicas_of(int shard) const;
  // For each slot of a replacement the slot that sends the state to it. `host_of_slot`: the host
  // number of each slot. The sender is on the replacement's host if a rank there holds the same,
  // because that needs no network. Otherwise it is on the host whose network link serves the fewest
  // replacements, of any shard. Among equals it is the rank that serves the fewest, then the
  // lowest. A shard that more ranks lack than hold has no entry: there one rank broadcasts.
  std::map<int, int> senders(const std::vector<int>& host_of_slot) const;
};

// The plan of the remaining members. If no member holds a shard, or each had optimizer state of its
// own, they read the checkpoint: as many as form whole groups of the same size, or one group of all
// if there are fewer. not_found: that, and they know of no checkpoints.
Result<RecoveryPlan> plan_to_shrink(const MemberStates& states);
// All members are present, some as replacements: slots do not change.
Result<RecoveryPlan> plan_to_replace(const MemberStates& states);
// All members are present, and connect again because some lost connections: slots do not change.
Result<RecoveryPlan> plan_to_reconnect(const MemberStates& states);

}  // namespace lockstep::train

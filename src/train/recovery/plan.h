// What the living make of what they told each other: who goes on as which rank, and from which
// step. Pure, so that all come to the same.
//
// A seat is a place of the mesh: seat replica x shards + shard. Who lives keeps his shard. Replicas
// that are whole stay together, in their order, since they were put together for being close; of
// the rest as many replicas are made as there are, of each shard, members who hold it.
//
//   shards = 2, seats of members:  replica 0: 0 1   replica 1: 2 3   replica 2: 4 5    1 and 4 die
//   replica 1 stays: 2 3; of 0 (shard 0) and 5 (shard 1) another is made: seats 2 3 0 5
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/record.h"

namespace lockstep {

// What a member tells the others after a death.
struct Standing {
  bool newcomer = false;  // in place of another: it holds nothing yet, and the rest says nothing

  std::vector<std::int64_t> seats = {};  // the member on each seat, before the death
  std::int64_t shards = 1;
  bool copied = true;    // whether other replicas hold the same of the optimizer's state
  bool unread = false;   // its state is to come from storage: it may hold anything
  bool storage = false;  // whether it knows of checkpoints
  bool cut = false;      // it lost the connection to another member

  std::int64_t decided = 0;  // steps
  bool undecided = false;    // complete gradients wait for the next decision
  double norm = 0;           // of the last decision
  std::int64_t optimizer_steps = 0;

  // At the beginning of a step that some decisions preceded.
  std::int64_t step = 0;
  std::int64_t decided_before = 0;
  std::uint64_t seed = 0;
  std::int64_t cursor = 0;
  std::int64_t batch = 0;

  static constexpr auto fields() {
    return record<Standing>(
        field("newcomer", &Standing::newcomer, "holds nothing yet"),
        field("seats", &Standing::seats, "the member on each seat before the death"),
        field("shards", &Standing::shards, "ranks of a replica"),
        field("copied", &Standing::copied, "replicas hold equal optimizer state"),
        field("unread", &Standing::unread, "its state is to come from storage"),
        field("storage", &Standing::storage, "it knows of checkpoints"),
        field("cut", &Standing::cut, "it lost the connection to another member"),
        field("decided", &Standing::decided, "steps that all have decided"),
        field("undecided", &Standing::undecided, "gradients are complete, the norm is not known"),
        field("norm", &Standing::norm, "of the last decision"),
        field("optimizer_steps", &Standing::optimizer_steps, "that were taken"),
        field("step", &Standing::step, "of the training, when the broken step began"),
        field("decided_before", &Standing::decided_before, "when the broken step began"),
        field("seed", &Standing::seed, "of the sampler"),
        field("cursor", &Standing::cursor, "of the sampler, when the broken step began"),
        field("batch", &Standing::batch, "samples of a step"));
  }
};

std::string words_of(const Standing& standing);
Result<Standing> standing_in(const std::string& words);

// By member; nothing of those who are gone.
using Standings = std::map<int, std::optional<Standing>>;

struct RecoveryPlan {
  std::vector<int> seats = {};  // the member on each: its new rank
  int shards = 1;
  std::vector<int> gone = {};       // members; not those who had left before
  std::vector<int> leaving = {};    // members that live, and fit into no replica
  std::vector<int> newcomers = {};  // members
  bool from_storage = false;        // what some of them lost nobody else holds: all read it
  bool laid_out_anew = false;       // from storage, for fewer ranks: seats hold other shards

  std::int64_t decided = 0;  // the last whole step's
  double norm = 0;           // for who has not taken it yet
  std::int64_t optimizer_steps = 0;
  std::int64_t step = 0;  // of the training, after it
  std::uint64_t seed = 0;
  std::int64_t cursor = 0;

  // Nothing for a member that has no seat.
  std::optional<int> seat_of(int member) const;
  // Who tells others of it: on the lowest seat, of those who were there before.
  int teller() const;
  // The replicas that hold a shard and those that lack it, whose ranks are newcomers; ascending.
  struct Replicas {
    std::vector<int> holding = {};
    std::vector<int> lacking = {};
  };
  Replicas replicas_of(int shard) const;
  // From which seat the newcomer on each gets its state, by the number of each seat's host: from
  // one of its own host if a rank there holds the same, since that takes no wire; else from the
  // host whose wire serves the fewest newcomers, of any shard. Of equals the rank that serves the
  // fewest, then the lowest. Not of a shard that more lack than hold: there one tells all.
  std::map<int, int> senders(const std::vector<int>& host_of_seat) const;
};

// Of those who are left. Where none of them holds a shard, or each had optimizer state of its own,
// from storage: as many as make whole groups of the same size, or one group of all if there are
// fewer. not_found: that, and they know of no checkpoints.
Result<RecoveryPlan> plan_to_shrink(const Standings& standings);
// All are there again, some as newcomers: seats stay as they were.
Result<RecoveryPlan> plan_to_refill(const Standings& standings);
// All are there, and connect again because some lost connections: seats stay as they were.
Result<RecoveryPlan> plan_to_reconnect(const Standings& standings);

}  // namespace lockstep

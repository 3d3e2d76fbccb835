// Mesh: the ranks of a run arranged along named axes. An axis is a group of ranks that exchange one
// kind of data: pipeline stages, replicas of a shard, the shards of one replica, tensor slices.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <c10/util/intrusive_ptr.h>

#include "base/result.h"
#include "base/units.h"
#include "train/comm.h"
#include "train/places.h"

namespace c10d {
class ProcessGroup;
}

namespace lockstep {

// Sizes of the axes; their product is the number of ranks.
struct MeshShape {
  int pp = 1;         // pipeline stages
  int replicate = 1;  // replicas that hold the same parameters
  int shard = 1;      // ranks that share one replica's parameters
  int tp = 1;         // slices of each tensor
};

class Mesh {
 public:
  // Refuses a shape whose product is not the group's size, and today pp and tp above one. Ranks of
  // a shard group are close to each other (places.h). Collective. bound: how long a wait for the
  // other ranks may last.
  static Result<Mesh> create(c10::intrusive_ptr<c10d::ProcessGroup> world, const MeshShape& shape,
                             Duration bound = Comm::kBound);
  // All ranks of the group as replicas.
  static Result<Mesh> replicas(c10::intrusive_ptr<c10d::ProcessGroup> world,
                               Duration bound = Comm::kBound);
  // One process, which needs no process group.
  static Mesh single() { return Mesh(); }

  // This mesh with this rank on that host, where the environment does not say which it is.
  Mesh on(std::string host) const;
  // Which ranks are on one host, found out once. Collective.
  Result<Places> places();
  // This mesh with its data axis (replicate x shard) cut into shard groups of so many ranks, which
  // must divide it. Collective where that makes new groups.
  Result<Mesh> cut(int shard) const;

  // Leaves all of its groups, as Comm::leave() tells.
  void leave() {
    for (auto* group : {&world_, &replicate_, &shard_}) group->leave();
  }

  // The same with groups of neighbours by number, wherever they are: for ranks that were numbered
  // so that those who belong together are. Of such groups the ranks have agreed before: where a
  // rank joins them, policy auto keeps the groups, since the others do not choose once more.
  Result<Mesh> cut_by_number(int shard) const;
  bool is_cut_by_number() const { return is_cut_by_number_; }

  const MeshShape& shape() const { return shape_; }
  int rank() const { return world_.rank(); }
  int world_size() const { return world_.size(); }

  Comm& world() { return world_; }
  // This rank and those that hold the same shard: a rank's number there is its replica's.
  Comm& replicate() { return replicate_; }
  const Comm& replicate() const { return replicate_; }
  // The ranks of this rank's replica.
  Comm& shard() { return shard_; }
  const Comm& shard() const { return shard_; }
  // Their numbers in the world, by their rank in shard().
  const std::vector<int>& shard_ranks() const { return shard_ranks_; }

 private:
  Mesh() = default;

  MeshShape shape_;
  Comm world_;
  Comm replicate_;
  Comm shard_;
  std::vector<int> shard_ranks_ = {0};
  std::string host_;  // empty: the environment knows
  std::optional<Places> places_;
  bool is_cut_by_number_ = false;
};

}  // namespace lockstep

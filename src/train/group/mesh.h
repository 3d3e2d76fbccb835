// Mesh: the ranks of a run arranged along named axes. An axis is a group of ranks that exchange one
// kind of data: pipeline stages, replicas of a shard, the shards of one replica, tensor slices.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <c10/util/intrusive_ptr.h>

#include "base/result.h"
#include "base/units.h"
#include "train/group/comm.h"
#include "train/group/rank_placement.h"

namespace c10d {
class ProcessGroup;
}

namespace lockstep::train {

class Meeting;

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
  // a shard group are close to each other (rank_placement.h). Collective. bound: how long a wait
  // for the other ranks may last.
  static Result<Mesh> create(c10::intrusive_ptr<c10d::ProcessGroup> world, const MeshShape& shape,
                             Duration bound = Comm::kBound);
  // All ranks of the group as replicas.
  static Result<Mesh> replicas(c10::intrusive_ptr<c10d::ProcessGroup> world,
                               Duration bound = Comm::kBound);
  static Mesh replicas(Comm world);
  // With another group of the same ranks for what replicas exchange.
  static Mesh replicas(Comm world, Comm replicate);
  // One process, which needs no process group.
  static Mesh single() { return Mesh(); }
  // Ranks that are not connected to each other: for a policy with servers, which meet there.
  static Mesh apart(std::shared_ptr<Meeting> meeting);

  // This mesh with this rank on that host, if the environment does not name the host.
  Mesh on(std::string host) const;
  // Which ranks are on one host, exchanged once. Collective.
  Result<RankPlacement> rank_placement();
  // This mesh with its data axis (replicate x shard) cut into shard groups of this size, which must
  // divide it. Collective if that makes new groups.
  Result<Mesh> with_shard_groups(int shard) const;

  // The device of the model, for all of its groups; see Comm::use_device().
  Result<void> use_device(at::Device device);

  // Leaves all of its groups at once; see Comm::leave().
  void leave();

  // The same mesh with groups of consecutive ranks, on whatever hosts: for ranks that were numbered
  // so that the members of a group are consecutive. The ranks have agreed on these groups before.
  // If a rank joins them, policy auto keeps the groups, because the other ranks do not choose
  // again.
  Result<Mesh> with_consecutive_shard_groups(int shard) const;
  bool has_consecutive_shard_groups() const { return has_consecutive_shard_groups_; }

  const MeshShape& shape() const { return shape_; }
  int rank() const;
  int world_size() const;
  // Null if the ranks are connected.
  const std::shared_ptr<Meeting>& meeting() const { return meeting_; }

  Comm& world() { return world_; }
  // This rank and those that hold the same shard: a rank there is the index of its replica.
  Comm& replicate() { return replicate_; }
  const Comm& replicate() const { return replicate_; }
  // The ranks of this rank's replica.
  Comm& shard() { return shard_; }
  const Comm& shard() const { return shard_; }
  // Their global ranks, by their rank in shard().
  const std::vector<int>& shard_ranks() const { return shard_ranks_; }

 private:
  Mesh() = default;

  std::shared_ptr<Meeting> meeting_;  // shared by the copies of a mesh
  MeshShape shape_;
  Comm world_;
  Comm replicate_;
  Comm shard_;
  std::vector<int> shard_ranks_ = {0};
  std::string host_;  // empty: from the environment
  std::optional<RankPlacement> rank_placement_;
  bool has_consecutive_shard_groups_ = false;
};

}  // namespace lockstep::train

#include "train/group/mesh.h"

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "base/check.h"
#include "base/format.h"
#include "train/faults.h"
#include "train/parameter_server/meeting.h"

namespace lockstep::train {

Result<Mesh> Mesh::create(c10::intrusive_ptr<c10d::ProcessGroup> world, const MeshShape& shape,
                          Duration bound) {
  enable_fault_reports();
  const auto [pp, replicate, shard, tp] = shape;
  const auto description =
      format("pp {} x replicate {} x shard {} x tp {}", pp, replicate, shard, tp);
  if (pp < 1 || replicate < 1 || shard < 1 || tp < 1)
    return Error{Code::invalid, format("mesh {}: every axis has at least one rank", description)};
  const long product = 1L * pp * replicate * shard * tp;
  if (product != world->getSize())
    return Error{Code::invalid, format("mesh {} has {} ranks, but the run has {}: change an axis",
                                       description, product, world->getSize())};
  if (pp * tp != 1)
    return Error{Code::invalid, format("mesh {}: only the axes replicate and shard are available; "
                                       "use replicate {}",
                                       description, product)};
  return replicas(Comm(std::move(world), bound)).with_shard_groups(shard);
}

Mesh Mesh::replicas(Comm world) {
  Mesh mesh;
  mesh.shape_.replicate = world.size();
  mesh.world_ = std::move(world);
  mesh.replicate_ = mesh.world_;
  mesh.shard_ranks_ = {mesh.rank()};
  return mesh;
}

Mesh Mesh::replicas(Comm world, Comm replicate) {
  auto mesh = replicas(std::move(world));
  mesh.replicate_ = std::move(replicate);
  return mesh;
}

Result<Mesh> Mesh::replicas(c10::intrusive_ptr<c10d::ProcessGroup> world, Duration bound) {
  const int size = world->getSize();
  return create(std::move(world), {.replicate = size}, bound);
}

Mesh Mesh::apart(std::shared_ptr<Meeting> meeting) {
  Mesh mesh;
  mesh.meeting_ = std::move(meeting);
  return mesh;
}

int Mesh::rank() const { return meeting_ ? meeting_->rank() : world_.rank(); }
int Mesh::world_size() const { return meeting_ ? meeting_->ranks() : world_.size(); }

Mesh Mesh::on(std::string host) const {
  Mesh mesh = *this;
  mesh.host_ = std::move(host);
  mesh.rank_placement_.reset();
  return mesh;
}

Result<RankPlacement> Mesh::rank_placement() {
  if (rank_placement_) return *rank_placement_;
  if (world_size() == 1) return rank_placement_.emplace(1);
  const auto host = host_.empty() ? TRY(own_host_id()) : host_;
  return rank_placement_.emplace(TRY(world_.all_gather(hash_host_id(host), "the ranks' hosts")));
}

Result<void> Mesh::use_device(at::Device device) {
  for (auto* group : {&world_, &replicate_, &shard_}) TRY(group->use_device(device));
  return {};
}

// NCCL's abort of one group may wait for kernels that wait for those of another.
void Mesh::leave() {
  std::vector<std::thread> threads;
  const auto leave_on_thread = [&](Comm& group) {
    threads.emplace_back([&group] { group.leave(); });
  };
  leave_on_thread(world_);
  if (!replicate_.is_same_group(world_)) leave_on_thread(replicate_);
  if (!shard_.is_same_group(world_)) leave_on_thread(shard_);
  for (auto& thread : threads) thread.join();
}

Result<Mesh> Mesh::with_consecutive_shard_groups(int shard) const {
  Mesh by_number = *this;
  by_number.rank_placement_.emplace(world_size());
  auto mesh = TRY(by_number.with_shard_groups(shard));
  mesh.rank_placement_ = rank_placement_;
  mesh.has_consecutive_shard_groups_ = true;
  return mesh;
}

Result<Mesh> Mesh::with_shard_groups(int shard) const {
  if (shard == shape_.shard) return *this;
  const int ranks = shape_.replicate * shape_.shard;
  LS_CHECK(shard >= 1 && ranks % shard == 0);
  Mesh mesh = *this;
  mesh.shape_.shard = shard;
  mesh.shape_.replicate = ranks / shard;
  const auto placement = TRY(mesh.rank_placement());
  auto group = placement.group_of(rank(), shard);
  std::vector<int> replicas;
  for (int i = 0; i < mesh.shape_.replicate; ++i)
    replicas.push_back(
        placement.ranks_by_host()[static_cast<std::size_t>(i) * static_cast<std::size_t>(shard) +
                                  static_cast<std::size_t>(group.index)]);
  mesh.shard_ = TRY(world_.split(group.ranks, format("shards of replica {}", group.number)));
  mesh.replicate_ = TRY(world_.split(replicas, format("replicas of shard {}", group.index)));
  // A group of all ranks is the world itself, with the world's ranks.
  if (shard == ranks) std::sort(group.ranks.begin(), group.ranks.end());
  mesh.shard_ranks_ = std::move(group.ranks);
  return mesh;
}

}  // namespace lockstep::train

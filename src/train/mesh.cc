#include "train/mesh.h"

#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "base/check.h"
#include "base/format.h"

namespace lockstep {
namespace {

// `count` ranks from `first` on, each `stride` after the one before.
std::vector<int> every(int first, int stride, int count) {
  std::vector<int> ranks;
  for (int i = 0; i < count; ++i) ranks.push_back(first + i * stride);
  return ranks;
}

}  // namespace

Result<Mesh> Mesh::create(c10::intrusive_ptr<c10d::ProcessGroup> world, const MeshShape& shape,
                          Duration bound) {
  const auto [pp, replicate, shard, tp] = shape;
  const auto words = format("pp {} x replicate {} x shard {} x tp {}", pp, replicate, shard, tp);
  if (pp < 1 || replicate < 1 || shard < 1 || tp < 1)
    return Error{Code::invalid, format("mesh {}: every axis has at least one rank", words)};
  const long product = 1L * pp * replicate * shard * tp;
  if (product != world->getSize())
    return Error{Code::invalid, format("mesh {} has {} ranks, but the run has {}: change an axis",
                                       words, product, world->getSize())};
  if (pp * tp != 1)
    return Error{Code::invalid, format("mesh {}: only the axes replicate and shard are available; "
                                       "use replicate {}",
                                       words, product)};
  Mesh mesh;
  mesh.shape_.replicate = static_cast<int>(product);
  mesh.world_ = Comm(std::move(world), bound);
  mesh.replicate_ = mesh.world_;
  return mesh.cut(shard);
}

Result<Mesh> Mesh::replicas(c10::intrusive_ptr<c10d::ProcessGroup> world, Duration bound) {
  const int size = world->getSize();
  return create(std::move(world), {.replicate = size}, bound);
}

Result<Mesh> Mesh::cut(int shard) const {
  if (shard == shape_.shard) return *this;
  const int ranks = shape_.replicate * shape_.shard;
  LS_CHECK(shard >= 1 && ranks % shard == 0);
  Mesh mesh = *this;
  mesh.shape_.shard = shard;
  mesh.shape_.replicate = ranks / shard;
  const int replica = rank() / shard;
  mesh.shard_ = TRY(world_.split(every(replica * shard, 1, shard), "shard"));
  mesh.replicate_ =
      TRY(world_.split(every(rank() % shard, shard, mesh.shape_.replicate), "replicate"));
  return mesh;
}

}  // namespace lockstep

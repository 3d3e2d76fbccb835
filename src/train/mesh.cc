#include "train/mesh.h"

#include <utility>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "base/format.h"

namespace lockstep {

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
  if (pp * shard * tp != 1)
    return Error{
        Code::invalid,
        format("mesh {}: only the replicate axis is available; use replicate {}", words, product)};
  Mesh mesh;
  mesh.shape_ = shape;
  mesh.replicate_ = Comm(std::move(world), bound);
  return mesh;
}

Result<Mesh> Mesh::replicas(c10::intrusive_ptr<c10d::ProcessGroup> world, Duration bound) {
  const int size = world->getSize();
  return create(std::move(world), {.replicate = size}, bound);
}

}  // namespace lockstep

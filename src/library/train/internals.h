// The contents of the classes of train.h, recovery.h and checkpoint.h: those of layer train.
#pragma once

#include <memory>
#include <utility>

#include "lockstep/train.h"
#include "train/data/sampler.h"
#include "train/group/mesh.h"
#include "train/measure/step_flops.h"
#include "train/optimizer/optimizer.h"
#include "train/shard.h"

namespace lockstep {

struct Group::Impl {
  train::Mesh mesh;
  // deferred: of a replacement, which gets its state later
  train::InitialValues values = train::InitialValues::broadcast_from_rank_0;
};

struct ShardedModel::Impl {
  std::unique_ptr<train::ShardedModel> model;
};

struct Optimizer::Impl {
  std::unique_ptr<train::Optimizer> optimizer;
  train::StepFlops flops = {};
};

struct Sampler::Impl {
  train::Sampler sampler;
};

struct Internals {
  static train::Mesh& of(const Group& group) { return group.impl_->mesh; }
  static train::InitialValues initial_values(const Group& group) { return group.impl_->values; }
  static train::ShardedModel& of(const ShardedModel& model) { return *model.impl_->model; }
  static train::Optimizer& of(const Optimizer& optimizer) { return *optimizer.impl_->optimizer; }
  static train::Sampler& of(const Sampler& sampler) { return sampler.impl_->sampler; }

  static Group group(train::Mesh mesh,
                     train::InitialValues values = train::InitialValues::broadcast_from_rank_0) {
    Group group;
    group.impl_ = std::make_shared<Group::Impl>(Group::Impl{std::move(mesh), values});
    return group;
  }
  static Transfer transfer(train::Transfer transfer);
  static Result<ShardedModel> sharded(std::unique_ptr<train::ShardedModel> model) {
    return ShardedModel(std::make_unique<ShardedModel::Impl>(ShardedModel::Impl{std::move(model)}));
  }
};

}  // namespace lockstep

// For tests: a small training with everything that a checkpoint contains.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include <ATen/ops/arange.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/nn/module.h>

#include "train/checkpoint/checkpointer.h"
#include "train/checkpoint/format/layouts_for_test.h"
#include "train/checkpoint/resume.h"
#include "train/ranks_for_test.h"

namespace lockstep::train::training_for_test {

inline at::Tensor wave(at::IntArrayRef shape, double phase) {
  const auto count = c10::multiply_integers(shape);
  return at::sin(at::arange(count, at::kFloat) * 1.7 + phase).view(shape);
}

class Net : public torch::nn::Module {
 public:
  explicit Net(std::int64_t width = 5, at::Device device = at::kCPU) {
    first = register_parameter("first", wave({width, 3}, 0.1).to(device));
    last = register_parameter("last", wave({1, width}, 0.2).to(device));
    steps = register_buffer("steps", at::zeros({1}, at::kLong).to(device));
  }
  at::Tensor loss(const std::vector<std::int64_t>& samples) {
    steps.add_(1);
    at::Tensor sum;
    for (auto sample : samples) {
      const auto x = wave({1, 3}, static_cast<double>(sample)).to(first.device());
      const auto one = at::linear(at::tanh(at::linear(x, first)), last).square().mean();
      sum = sum.defined() ? sum + one : one;
    }
    return sum / static_cast<double>(samples.size());
  }
  at::Tensor first, last, steps;
};

struct Training {
  explicit Training(Mesh mesh = Mesh::single(), std::int64_t width = 5,
                    const OptimizerOptions& options = {.learning_rate = 0.05},
                    at::Device device = at::kCPU)
      : net(width, device),
        model(shard(net, mesh).value()),
        optimizer(Optimizer::create(*model, options).value()),
        sampler(Sampler::create(100, 12, 1).value()) {}

  Result<double> train_step() {
    auto& mesh = model->mesh();
    samples = TRY(sampler.next(mesh.rank(), mesh.world_size()));
    const auto loss = net.loss(samples);
    TRY(model->backward(loss, Sync::now));
    TRY(model->finish_gradients());
    TRY(optimizer->step());
    ++step;
    return loss.item<double>();
  }
  TrainingState state() const { return state_of(step, *model, *optimizer, sampler); }
  Result<void> resume_from(const std::filesystem::path& folder) {
    step = TRY(resume(folder, *model, *optimizer, sampler));
    return {};
  }

  Net net;
  std::unique_ptr<ShardedModel> model;
  std::unique_ptr<Optimizer> optimizer;
  Sampler sampler;
  std::int64_t step = 0;
  std::vector<std::int64_t> samples;  // of this rank's last step
};

inline Result<void> train_and_save(Training& run, Checkpointer& checkpoints, int steps) {
  for (int i = 0; i < steps; ++i) {
    TRY(run.train_step());
    TRY(checkpoints.save(run.state()));
  }
  return checkpoints.finish();
}

// The store for a second rendezvous of a test's ranks, for the messages of their checkpointers.
using RendezvousStore = c10::intrusive_ptr<c10d::HashStore>;

inline Comm apart(const RendezvousStore& store, const ranks_for_test::Rank& self) {
  const int ranks = self.mesh.world_size();
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, self.rank, ranks);
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO,
                    ranks_for_test::gloo(store, self.rank, ranks));
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
  return Comm(std::move(group), ranks_for_test::kBound);
}

}  // namespace lockstep::train::training_for_test

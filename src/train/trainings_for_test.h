// For tests: a small model of odd sizes, trained by every policy on ranks that are threads.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/tanh.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include "base/format.h"
#include "train/optimizer/optimizer.h"
#include "train/shard.h"

namespace lockstep::train::trainings_for_test {

inline constexpr int kRanks = 4;
inline constexpr int kBatch = 12;

// Pseudo-random numbers that are the same everywhere.
inline at::Tensor wave(at::IntArrayRef shape, double phase) {
  const auto count = c10::multiply_integers(shape);
  return at::sin(at::arange(count, at::kDouble) * 1.7 + phase).view(shape);
}

// Odd sizes, so that nothing divides; one unused parameter, one that needs no gradient.
class Layer : public torch::nn::Module {
 public:
  explicit Layer(double phase, const at::TensorOptions& options = at::kDouble) {
    weight = register_parameter("weight", (wave({7, 7}, phase) * 0.5).to(options));
    bias = register_parameter("bias", (wave({7}, phase + 0.1) * 0.5).to(options));
    frozen = register_parameter("frozen", wave({7}, phase + 0.2).to(options),
                                /*requires_grad=*/false);
    unused = register_parameter("unused", wave({3}, phase + 0.3).to(options));
  }
  at::Tensor forward(const at::Tensor& x) {
    auto y = at::tanh(at::linear(x, weight, bias) + frozen);
    return uses_all ? y + unused.sum() : y;
  }

  at::Tensor weight, bias, frozen, unused;
  bool uses_all = false;
};

// Has a parameter of three numbers, so that most ranks own none of it, and one that is shared.
class Scale : public torch::nn::Module {
 public:
  explicit Scale(const at::Tensor& shared) {
    scale = register_parameter("scale", wave({3}, 0.7).to(shared.options()));
    shared_ = register_parameter("shared", shared);
  }
  at::Tensor forward(const at::Tensor& x) { return x * (1 + scale.sum() * shared_); }

  at::Tensor scale;

 private:
  at::Tensor shared_;
};

class Net : public torch::nn::Module {
 public:
  // Made where it is used: a tensor of the CPU cannot become one of the simulated device.
  explicit Net(const at::TensorOptions& options = at::kDouble) {
    first = register_parameter("first", (wave({7, 5}, 0.1) * 0.5).to(options));
    const auto shared = wave({7}, 0.2).to(options).requires_grad_();
    for (int i = 0; i < 3; ++i) {
      layers.push_back(
          register_module(format("layer{}", i), std::make_shared<Layer>(0.3 + i, options)));
      scales.push_back(register_module(format("scale{}", i), std::make_shared<Scale>(shared)));
    }
    last = register_parameter("last", (wave({3, 7}, 0.6) * 0.5).to(options));
  }
  std::vector<torch::nn::Module*> blocks() const {
    std::vector<torch::nn::Module*> all;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      all.push_back(layers[i].get());
      all.push_back(scales[i].get());
    }
    return all;
  }
  at::Tensor loss(ShardedModel& model, const at::Tensor& x, const at::Tensor& y) const {
    auto hidden = at::tanh(at::linear(x, first));
    for (std::size_t i = 0; i < layers.size(); ++i)
      hidden = model(*scales[i], model(*layers[i], hidden));
    return at::mse_loss(at::linear(hidden, last), y);
  }

  at::Tensor first, last;
  std::vector<std::shared_ptr<Layer>> layers;
  std::vector<std::shared_ptr<Scale>> scales;
};

struct Share {
  at::Tensor x, y;
};

inline Share share_of(int step, Mesh& mesh) {
  const auto size = kBatch / mesh.world_size();
  const auto from = mesh.rank() * size;
  return {wave({kBatch, 5}, step).narrow(0, from, size),
          wave({kBatch, 3}, step + 0.5).narrow(0, from, size)};
}

inline Result<Policy> policy_of(const std::string& name, int world_size) {
  auto policy = TRY(parse_policy(name, world_size));
  policy.bucket = 512_B;  // several units of undivided parameters, although it is small
  policy.first_bucket = 128_B;
  return policy;
}

// A model with its optimizer, one step at a time.
class Training {
 public:
  explicit Training(const at::TensorOptions& tensors) : options(tensors), net(tensors) {}
  static Result<std::unique_ptr<Training>> start(Mesh mesh, const std::string& policy,
                                                 const OptimizerOptions& options,
                                                 at::ScalarType type = at::kDouble,
                                                 at::Device device = at::kCPU) {
    auto training = std::make_unique<Training>(at::TensorOptions(device).dtype(type));
    auto& net = training->net;
    const auto parsed = TRY(policy_of(policy, mesh.world_size()));
    training->model = TRY(shard(net, std::move(mesh), parsed, net.blocks()));
    training->optimizer = TRY(Optimizer::create(*training->model, options));
    return training;
  }

  // The gradient's norm.
  Result<double> step(int number, int parts) {
    const auto share = share_of(number, model->mesh());
    const auto x = share.x.to(options);
    const auto y = share.y.to(options);
    const auto size = x.size(0) / parts;
    for (int part = 0; part < parts; ++part) {
      const auto loss =
          net.loss(*model, x.narrow(0, part * size, size), y.narrow(0, part * size, size));
      TRY(model->backward(loss, part + 1 == parts ? Sync::now : Sync::later));
    }
    TRY(model->finish_gradients());
    return TRY(optimizer->step()).gradient_norm;
  }

  std::vector<OwnedTensor> state() const {
    auto state = model->state();
    for (auto& tensor : optimizer->state()) state.push_back(std::move(tensor));
    return state;
  }

  at::TensorOptions options;  // of the model's tensors
  Net net;
  std::unique_ptr<ShardedModel> model;
  std::unique_ptr<Optimizer> optimizer;
};

using State = std::map<std::string, at::Tensor>;  // flat

// The final state of a training in one process.
inline State alone(const OptimizerOptions& options, int steps) {
  auto training = Training::start(Mesh::single(), "ddp", options).value();
  for (int step = 0; step < steps; ++step) EXPECT_TRUE(training->step(step, 1));
  State state;
  for (const auto& [name, shape, owned, tensor, equal, steady] : training->state())
    state[name] = tensor.clone();
  return state;
}

// The value of a parameter before the first step.
inline at::Tensor start_of(const std::string& name) {
  static const auto training = Training::start(Mesh::single(), "ddp", {}).value();
  for (const auto& one : training->model->state())
    if (one.name == name) return one.tensor;
  return {};
}

inline double difference(const at::Tensor& a, const at::Tensor& b) {
  return a.numel() == 0 ? 0 : (a.cpu() - b.cpu()).abs().max().item<double>();
}

inline bool is_divided(const std::string& name) { return name.find("frozen") == std::string::npos; }

inline std::int64_t elements_of(const State& state) {
  std::int64_t elements = 0;
  for (const auto& [name, tensor] : state) elements += is_divided(name) ? tensor.numel() : 0;
  return elements;
}

// The largest difference in this rank's part, and the number of its elements that policies divide.
inline std::pair<double, std::int64_t> compare(const Training& training, const State& expected) {
  double most = 0;
  std::int64_t held = 0;
  for (const auto& [name, shape, owned, tensor, equal, steady] : training.state()) {
    const auto& whole = expected.at(name);
    EXPECT_EQ(tensor.numel(), owned.size()) << name;
    EXPECT_EQ(c10::multiply_integers(shape), whole.numel()) << name;
    most = std::max(most, difference(tensor, whole.narrow(0, owned.begin, owned.size())));
    if (is_divided(name)) held += owned.size();
  }
  return {most, held};
}

inline const std::vector<std::string> kPolicies = {
    "ddp",        "zero1",      "zero2",         "zero3",           "mics:2",
    "mics:2+opt", "zero3+keep", "ddp+recompute", "mics:2+recompute"};

inline std::size_t trainable_units(const ShardedModel& model) {
  const auto& units = model.units();
  return static_cast<std::size_t>(
      std::count_if(units.begin(), units.end(), [](const Unit& unit) { return unit.trainable(); }));
}

}  // namespace lockstep::train::trainings_for_test

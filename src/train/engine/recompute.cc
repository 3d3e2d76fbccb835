#include "train/engine/recompute.h"

#include <mutex>
#include <utility>

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

namespace lockstep::train {
namespace {

namespace autograd = torch::autograd;

// The state of torch's default generators, of the CPU and of the device that the block is on.
class RandomState {
 public:
  explicit RandomState(at::Device device) {
    add(at::kCPU);
    if (!device.is_cpu()) add(device);
  }
  void restore() const {
    for (const auto& [generator, state] : states_) {
      auto copy = generator;
      const std::lock_guard lock(copy.mutex());
      copy.set_state(state);
    }
  }
  at::Device device() const { return states_.back().first.device(); }

 private:
  void add(at::Device device) {
    auto generator = at::globalContext().defaultGenerator(device);
    const std::lock_guard lock(generator.mutex());
    states_.emplace_back(generator, generator.get_state());
  }

  std::vector<std::pair<at::Generator, at::Tensor>> states_;
};

// While it lives the generators repeat the numbers that they drew from the state `then` on.
class RandomStateGuard {
 public:
  explicit RandomStateGuard(const RandomState& then) : now_(then.device()) { then.restore(); }
  ~RandomStateGuard() { now_.restore(); }
  RandomStateGuard(const RandomStateGuard&) = delete;
  RandomStateGuard& operator=(const RandomStateGuard&) = delete;

 private:
  const RandomState now_;
};

// Autocast's settings in this thread. Autograd's threads have others.
class AutocastState {
 public:
  explicit AutocastState(at::Device device) {
    for (const auto type : {c10::DeviceType::CPU, device.type()})
      modes_.push_back(
          {type, at::autocast::is_autocast_enabled(type), at::autocast::get_autocast_dtype(type)});
  }
  void restore() const {
    for (const auto& [type, enabled, dtype] : modes_) {
      at::autocast::set_autocast_enabled(type, enabled);
      at::autocast::set_autocast_dtype(type, dtype);
    }
  }
  at::Device device() const { return modes_.back().type; }

 private:
  struct Mode {
    c10::DeviceType type;
    bool enabled;
    at::ScalarType dtype;
  };
  std::vector<Mode> modes_;
};

// While it lives, autocast is as it was then.
class AutocastStateGuard {
 public:
  explicit AutocastStateGuard(const AutocastState& then) : now_(then.device()) { then.restore(); }
  ~AutocastStateGuard() { now_.restore(); }
  AutocastStateGuard(const AutocastStateGuard&) = delete;
  AutocastStateGuard& operator=(const AutocastStateGuard&) = delete;

 private:
  const AutocastState now_;
};

// The state that the graph holds for a block until its backward.
struct RecomputeNodeState : torch::CustomClassHolder {
  RecomputeNodeState(Recomputation what, at::Device device)
      : recomputation(std::move(what)), random(device), autocast(device) {}
  ~RecomputeNodeState() override { end(/*ran=*/false); }
  // Releases the inputs too: the node may live as long as the loss.
  void end(bool ran) {
    if (recomputation.end) recomputation.end(ran);
    recomputation = {};
  }

  Recomputation recomputation;
  RandomState random;
  AutocastState autocast;
};

struct Recompute : autograd::Function<Recompute> {
  // The first input stands for the block's parameters: it needs a gradient if one of them does.
  static at::Tensor forward(autograd::AutogradContext* context, at::TensorList inputs,
                            const c10::intrusive_ptr<RecomputeNodeState>& held) {
    const std::vector<at::Tensor> given(inputs.begin() + 1, inputs.end());
    context->save_for_backward(given);
    context->saved_data["held"] = c10::IValue::make_capsule(held);
    return held->recomputation.forward(given);
  }

  static autograd::variable_list backward(autograd::AutogradContext* context,
                                          const autograd::variable_list& gradients) {
    const auto held = c10::static_intrusive_pointer_cast<RecomputeNodeState>(
        context->saved_data["held"].toCapsule());
    std::vector<at::Tensor> inputs;
    for (const auto& saved : context->get_saved_variables()) {
      inputs.push_back(saved.defined() ? saved.detach() : saved);
      if (saved.defined()) inputs.back().set_requires_grad(saved.requires_grad());
    }
    held->recomputation.begin();
    at::Tensor output;
    {
      const at::AutoGradMode graph(true);
      const RandomStateGuard random(held->random);
      const AutocastStateGuard autocast(held->autocast);
      output = held->recomputation.forward(inputs);
    }
    if (output.requires_grad()) autograd::backward({output}, {gradients[0]});
    held->end(/*ran=*/true);
    autograd::variable_list result{at::Tensor()};
    for (const auto& input : inputs) result.push_back(input.defined() ? input.grad() : input);
    result.emplace_back();  // the gradient of `held`
    return result;
  }
};

}  // namespace

at::Tensor run_recomputed(const std::vector<at::Tensor>& inputs, bool trainable, at::Device device,
                          Recomputation again) {
  std::vector<at::Tensor> all{at::empty({0}).set_requires_grad(trainable)};
  all.insert(all.end(), inputs.begin(), inputs.end());
  return Recompute::apply(at::TensorList(all),
                          c10::make_intrusive<RecomputeNodeState>(std::move(again), device));
}

}  // namespace lockstep::train

#include "train/recompute.h"

#include <mutex>
#include <utility>

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

namespace lockstep {
namespace {

namespace autograd = torch::autograd;

// Where torch's default generators stand, of the CPU and of the device that the block is on.
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

// While it lives the generators give again what they gave from `then` on.
class Rewound {
 public:
  explicit Rewound(const RandomState& then) : now_(then.device()) { then.restore(); }
  ~Rewound() { now_.restore(); }
  Rewound(const Rewound&) = delete;
  Rewound& operator=(const Rewound&) = delete;

 private:
  const RandomState now_;
};

// What the graph holds of a block until its backward.
struct Held : torch::CustomClassHolder {
  Held(Recomputation what, at::Device device) : again(std::move(what)), random(device) {}
  ~Held() override { end(/*ran=*/false); }
  // Lets go of the inputs too: the node may live as long as the loss.
  void end(bool ran) {
    if (again.end) again.end(ran);
    again = {};
  }

  Recomputation again;
  RandomState random;
};

struct Recompute : autograd::Function<Recompute> {
  // The first input stands for the block's parameters: it needs a gradient if one of them does.
  static at::Tensor forward(autograd::AutogradContext* context, at::TensorList inputs,
                            const c10::intrusive_ptr<Held>& held) {
    const std::vector<at::Tensor> given(inputs.begin() + 1, inputs.end());
    context->save_for_backward(given);
    context->saved_data["held"] = c10::IValue::make_capsule(held);
    return held->again.forward(given);
  }

  static autograd::variable_list backward(autograd::AutogradContext* context,
                                          const autograd::variable_list& gradients) {
    const auto held =
        c10::static_intrusive_pointer_cast<Held>(context->saved_data["held"].toCapsule());
    std::vector<at::Tensor> inputs;
    for (const auto& saved : context->get_saved_variables()) {
      inputs.push_back(saved.defined() ? saved.detach() : saved);
      if (saved.defined()) inputs.back().set_requires_grad(saved.requires_grad());
    }
    held->again.begin();
    at::Tensor output;
    {
      const at::AutoGradMode graph(true);
      const Rewound random(held->random);
      output = held->again.forward(inputs);
    }
    if (output.requires_grad()) autograd::backward({output}, {gradients[0]});
    held->end(/*ran=*/true);
    autograd::variable_list result{at::Tensor()};
    for (const auto& input : inputs) result.push_back(input.defined() ? input.grad() : input);
    result.emplace_back();  // of `held`
    return result;
  }
};

}  // namespace

at::Tensor recomputed(const std::vector<at::Tensor>& inputs, bool trainable, Recomputation again) {
  const auto device = inputs.empty() ? at::Device(at::kCPU) : inputs.front().device();
  std::vector<at::Tensor> all{at::empty({0}).set_requires_grad(trainable)};
  all.insert(all.end(), inputs.begin(), inputs.end());
  return Recompute::apply(at::TensorList(all), c10::make_intrusive<Held>(std::move(again), device));
}

}  // namespace lockstep

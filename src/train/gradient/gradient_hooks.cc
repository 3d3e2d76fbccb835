#include "train/gradient/gradient_hooks.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace lockstep::train {
namespace {

namespace autograd = torch::autograd;

// Runs after autograd has added to a parameter's gradient.
class GradientReadyHook : public autograd::FunctionPostHook {
 public:
  explicit GradientReadyHook(std::function<void()> arrived) : arrived_(std::move(arrived)) {}
  autograd::variable_list operator()(const autograd::variable_list& outputs,
                                     const autograd::variable_list&) override {
    arrived_();
    return outputs;
  }

 private:
  std::function<void()> arrived_;
};

}  // namespace

// The accumulators are kept because a parameter holds its own only weakly.
struct GradientHooks::Installed {
  decltype(autograd::Edge::function) accumulator;  // before torch 2.13 another kind of pointer
  std::uintptr_t key;
};

GradientHooks::GradientHooks() = default;

GradientHooks::~GradientHooks() {
  for (auto& [accumulator, key] : installed_) accumulator->del_post_hook(key);
}

void GradientHooks::add(const at::Tensor& parameter, std::function<void()> arrived) {
  auto accumulator = autograd::impl::grad_accumulator(parameter);
  const auto key =
      accumulator->add_post_hook(std::make_unique<GradientReadyHook>(std::move(arrived)));
  installed_.push_back({std::move(accumulator), key});
}

bool GradientHooks::are_installed_on(const at::Tensor& parameter) {
  const auto accumulator = autograd::impl::grad_accumulator(parameter);
  const auto& hooks = accumulator->post_hooks();
  return std::any_of(hooks.begin(), hooks.end(), [](const auto& hook) {
    return dynamic_cast<GradientReadyHook*>(hook.get()) != nullptr;
  });
}

}  // namespace lockstep::train

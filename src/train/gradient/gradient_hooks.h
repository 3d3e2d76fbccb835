// GradientHooks: autograd calls them when it has added to a parameter's gradient.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

namespace lockstep::train {

// Removes the hooks when destroyed.
class GradientHooks {
 public:
  GradientHooks();
  ~GradientHooks();
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

  // On a leaf that requires a gradient. `arrived` is called on the thread that runs backward.
  void add(const at::Tensor& parameter, std::function<void()> arrived);
  // True if hooks of any owner are installed.
  static bool are_installed_on(const at::Tensor& parameter);

 private:
  struct Installed;
  std::vector<Installed> installed_;
};

}  // namespace lockstep::train

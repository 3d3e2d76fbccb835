// GradientHooks: autograd tells when it has added to a parameter's gradient.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

namespace lockstep {

// Until it is gone.
class GradientHooks {
 public:
  GradientHooks();
  ~GradientHooks();
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

  // On a leaf that requires a gradient. `arrived` is called on the thread that runs backward.
  void add(const at::Tensor& parameter, std::function<void()> arrived);
  // Whether somebody's are.
  static bool are_on(const at::Tensor& parameter);

 private:
  struct Installed;
  std::vector<Installed> installed_;
};

}  // namespace lockstep

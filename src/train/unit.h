// Unit: the parameters that are communicated together, as one flat buffer, and their gradients as
// another. The module's own parameters and gradients become views of them, so that one all-reduce
// serves many parameters without a copy, and the optimizer steps on few large tensors.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "base/result.h"
#include "train/comm.h"
#include "train/layout.h"

namespace lockstep {

class Unit {
 public:
  // `parameters` are the module's, in the order of Layout::parameters. Values are kept, gradients
  // start at zero.
  static Result<Unit> create(const Layout& layout, int index,
                             const std::vector<at::Tensor>& parameters, Comm& comm);

  int index() const { return index_; }
  // One-dimensional, in the backend's memory where it lends some. Padding is zero in both.
  const at::Tensor& flat_parameters() const { return flat_parameters_; }
  const at::Tensor& flat_gradients() const { return flat_gradients_; }

  void zero_gradients();
  // Puts the views back where somebody replaced or dropped a gradient (zero_grad does), keeping its
  // values.
  void attach_gradients();

  // Counts the parameters whose gradient is complete in this backward.
  void expect_all() { missing_ = static_cast<int>(members_.size()); }
  void arrived() { --missing_; }
  bool complete() const { return missing_ == 0; }

 private:
  struct Member {
    at::Tensor parameter;
    at::Tensor gradient;  // view of flat_gradients_
  };

  int index_ = 0;
  at::Tensor flat_parameters_;
  at::Tensor flat_gradients_;
  std::vector<Member> members_;
  int missing_ = 0;
};

}  // namespace lockstep

// Stepper: an optimizer of any make, as far as going on after a death needs it: ours (optimizer.h),
// or torch's from Python.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "train/owned.h"

namespace lockstep {

struct NamedTensor;  // shard.h

class Stepper {
 public:
  virtual ~Stepper() = default;

  // A step has two acts: all ranks decide on it by agreeing on the norm, then each takes it. When a
  // rank dies in the first, some of the others may have the decision and some not; who has it knows
  // that all had complete gradients.
  virtual std::int64_t decided() const = 0;
  // Whether complete gradients wait for a decision that this rank did not get.
  virtual bool undecided() const = 0;
  virtual double last_norm() const = 0;  // of the last decision
  // Takes the decision that others have got: undecided() must hold. Afterwards model.spread().
  virtual Result<void> catch_up(double norm) = 0;
  // Of a rank whose state comes from elsewhere: nothing waits for a decision any more.
  virtual void set_decided(std::int64_t decided) = 0;

  // "adamw"
  virtual std::string_view method() const = 0;
  // Steps taken; AdamW's bias correction depends on it.
  virtual std::int64_t steps() const = 0;
  virtual void set_steps(std::int64_t steps) = 0;
  // This rank's state, in as few tensors as there may be; alike on ranks that hold the same.
  virtual Result<std::vector<NamedTensor>> flat_state() = 0;
  // State to be written to, for tensors such as these: "exp_avg/head.weight". Replaces what it had.
  virtual Result<std::vector<OwnedTensor>> state_like(const std::vector<std::string>& names) = 0;

  // After the model was laid out anew: for the slices that this rank has now. The state is to come.
  virtual Result<void> remake() = 0;
  // Of the learning rate that the program sets, now and later; 1 at first.
  virtual void scale_learning_rate(double factor) = 0;
};

}  // namespace lockstep

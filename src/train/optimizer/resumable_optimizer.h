// ResumableOptimizer: the operations of any optimizer that recovery after the loss of a rank needs:
// of our own (optimizer.h), or of torch's from Python.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "train/engine/owned_tensor.h"

namespace lockstep::train {

struct NamedTensor;  // shard.h

class ResumableOptimizer {
 public:
  virtual ~ResumableOptimizer() = default;

  // A step has two parts: all ranks decide on it by agreeing on the norm, then each takes it. If a
  // rank is lost in the first part, some of the others may have the decision and some not. A rank
  // that has it knows that all had complete gradients.
  virtual std::int64_t decided_steps() const = 0;
  // True if complete gradients wait for a decision that this rank did not get.
  virtual bool awaits_decision() const = 0;
  virtual double last_norm() const = 0;  // of the last decision
  // Takes the decision that the other ranks have got: awaits_decision() must hold. Call
  // model.sync_parameters() afterwards.
  virtual Result<void> apply_missed_step(double norm) = 0;
  // For a rank that gets its state from elsewhere: no gradients wait for a decision any more.
  virtual void set_decided_steps(std::int64_t decided) = 0;

  // "adamw"
  virtual std::string_view method() const = 0;
  // Steps taken; AdamW's bias correction depends on it.
  virtual std::int64_t steps() const = 0;
  virtual void set_steps(std::int64_t steps) = 0;
  // This rank's state, in as few tensors as possible; equal on ranks that hold the same elements.
  virtual Result<std::vector<NamedTensor>> flat_state() = 0;
  // State to be written to, for tensors with these names: "exp_avg/head.weight". Replaces the old
  // state.
  virtual Result<std::vector<OwnedTensor>> make_state(const std::vector<std::string>& names) = 0;

  // After resharding the model: uses the slices that this rank has now. The state is restored
  // later.
  virtual Result<void> rebuild() = 0;
  // Scales the learning rates that the program sets, now and later; 1 at first.
  virtual void scale_learning_rate(double factor) = 0;
};

}  // namespace lockstep::train

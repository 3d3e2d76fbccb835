// GradientTracker: tracks the gradients that a backward has computed. A parameter's gradient is
// complete when autograd has added to it, or when the backward of its block is over without that:
// then it will get none. Complete gradients go on to the reducer, and a complete unit releases its
// parameters' memory.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"
#include "train/engine/blocks.h"
#include "train/engine/layout.h"
#include "train/engine/module_tensors.h"
#include "train/engine/parameter_gatherer.h"
#include "train/engine/unit.h"
#include "train/gradient/gradient_reducer.h"

namespace lockstep::train {

class GradientTracker {
 public:
  struct Sinks {
    ParameterGatherer& gatherer;
    GradientReducer& reducer;
  };

  // All references must outlive it. parameters: the trainable ones. recompute: blocks run again in
  // backward.
  GradientTracker(std::vector<Unit>& units, const Layout& layout, const Blocks& blocks,
                  const std::vector<NamedTensor>& parameters, bool recompute, Sinks sinks);

  // A backward begins. counting: its gradients are reduced.
  void begin(bool counting);
  bool in_backward() const { return in_backward_; }
  // Autograd has added to a parameter's gradient. If blocks are recomputed, that happens once for
  // each block that has the parameter and for each of its runs: a gradient that may come again
  // waits for the last, or for the end.
  void on_gradient(std::size_t parameter);
  // Backward is over: a parameter that it did not reach keeps its gradient, zero or that of earlier
  // micro-steps. Refuses a gradient that was reported complete too early.
  Result<void> end();

  // A block's backward is over when the gradients of its inputs have been computed.
  // expect_input_gradient(): one of them is pending; on_input_gradient(): it has been computed. If
  // no input has a gradient, one that never comes is expected.
  void expect_input_gradient(int block) {
    ++pending_input_gradients_[static_cast<std::size_t>(block)];
  }
  void on_input_gradient(int block);
  // The same for a block that runs again in backward; ran: its own backward has run.
  void expect_recompute(int block) { ++pending_recomputes_[static_cast<std::size_t>(block)]; }
  void on_recompute_end(int block, bool ran);

 private:
  struct ParameterLocation {  // of a parameter
    int unit = 0;
    std::size_t member = 0;
  };

  bool may_get_more_gradients(std::size_t parameter) const;
  void complete_parameter(std::size_t parameter);
  void complete_block(int block);

  std::vector<Unit>& units_;
  const Blocks& blocks_;
  const std::vector<NamedTensor>& parameters_;
  const bool recompute_;
  Sinks sinks_;
  std::vector<ParameterLocation> locations_;       // by parameter
  std::vector<std::vector<std::size_t>> members_;  // by block: its divided parameters

  bool in_backward_ = false;
  bool counting_ = false;
  std::vector<bool> ready_;                   // by parameter, in this backward
  std::vector<int> pending_input_gradients_;  // by block: inputs whose gradients this backward has
                                              // yet to compute
  std::vector<int> pending_recomputes_;       // by block: forwards that have yet to be recomputed
  std::string completed_twice_;               // name of a parameter, if it happened
};

}  // namespace lockstep::train

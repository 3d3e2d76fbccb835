// Arrivals: which gradients a backward has brought. A parameter's is complete when autograd has
// added to it, or when the backward of its block is over without that: then it will get none. What
// is complete goes on to the reductions, and a unit that is complete loses its parameters' memory.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"
#include "train/blocks.h"
#include "train/gather.h"
#include "train/layout.h"
#include "train/module_tensors.h"
#include "train/reduce.h"
#include "train/unit.h"

namespace lockstep {

class Arrivals {
 public:
  struct Sinks {
    Gathers& gathers;
    Reductions& reductions;
  };

  // All references must outlive it. parameters: the trainable ones. recompute: blocks run again in
  // backward.
  Arrivals(std::vector<Unit>& units, const Layout& layout, const Blocks& blocks,
           const std::vector<NamedTensor>& parameters, bool recompute, Sinks sinks);

  // A backward begins. counting: its gradients are reduced.
  void begin(bool counting);
  bool in_backward() const { return in_backward_; }
  // Autograd has added to a parameter's gradient. Where blocks are recomputed, that comes once for
  // each of them that has the parameter and for each time that it ran: what may come again waits
  // for the last, or for the end.
  void arrived(std::size_t parameter);
  // Backward is over: what it did not reach keeps the gradient it had, zero or that of earlier
  // micro-steps. Refuses a gradient that was complete before it was.
  Result<void> end();

  // When the gradients of a block's inputs are there, its backward is over. open(): one of them is
  // to come; close(): it is there. Where no input has a gradient, one that never comes is opened.
  void open(int block) { ++open_[static_cast<std::size_t>(block)]; }
  void close(int block);
  // The same of a block that runs again in backward; ran: with its own backward behind it.
  void open_again(int block) { ++again_[static_cast<std::size_t>(block)]; }
  void close_again(int block, bool ran);

 private:
  struct Home {  // of a parameter
    int unit = 0;
    std::size_t member = 0;
  };

  bool may_come_again(std::size_t parameter) const;
  void complete(std::size_t parameter);
  void complete_block(int block);

  std::vector<Unit>& units_;
  const Blocks& blocks_;
  const std::vector<NamedTensor>& parameters_;
  const bool recompute_;
  Sinks sinks_;
  std::vector<Home> homes_;                        // by parameter
  std::vector<std::vector<std::size_t>> members_;  // by block: its divided parameters

  bool in_backward_ = false;
  bool counting_ = false;
  std::vector<bool> ready_;    // by parameter, in this backward
  std::vector<int> open_;      // by block: inputs whose gradients this backward has yet to compute
  std::vector<int> again_;     // by block: forwards that have yet to be recomputed
  std::string arrived_twice_;  // name of a parameter, if it happened
};

}  // namespace lockstep

// WholeParameters: the values and gradients of parameters, whole, for an optimizer that cannot step
// slices, such as Muon. Each parameter has an owner among the ranks that divide the optimizer's
// state. The owner gets all slices of it before the step, and returns their new values afterwards.
//
// Sent by each rank in a step: its slices of values and gradients, to their owners; then as owner
// the new values of the other ranks' slices. With n ranks and parameters of M bytes that the
// optimizer computes with, about 2(M/n)(n-1)/n and (M/n)(n-1)/n, if the owners have equal shares.
// Memory: two copies of the parameters that this rank owns during the step, and four while they
// are exchanged.
#pragma once

#include <cstddef>
#include <map>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/result.h"
#include "train/engine/layout.h"
#include "train/group/comm.h"
#include "train/shard.h"

namespace lockstep::train {

// A parameter, by its index in model.parameters(), and the slice of which rank is its owner.
struct OwnedParameter {
  std::size_t parameter = 0;
  int owner = 0;
};

class WholeParameters {
 public:
  struct Whole {
    at::Tensor value;     // in the type of the master
    at::Tensor gradient;  // both in the parameter's shape
  };

  // The model must outlive it. Collective.
  static Result<WholeParameters> create(ShardedModel& model);

  // Gathers finished gradients and values at their owners; every rank passes the same. Returns
  // what this rank owns. Collective.
  Result<std::map<std::size_t, Whole>> gather(const std::vector<OwnedParameter>& parameters);
  // Writes the values, as they are now, to the masters of their slices. Collective.
  Result<void> return_values(const std::vector<OwnedParameter>& parameters,
                             const std::map<std::size_t, Whole>& owned);

 private:
  // Elements of a parameter, which one rank holds in its slice and another has as its owner.
  struct Piece {
    std::size_t parameter;
    Interval interval;
  };
  using Pieces = std::vector<Piece>;
  // By rank of the group: the pieces in this rank's slice that the other owns, and the reverse.
  struct Exchange {
    at::ScalarType type;
    std::vector<Pieces> held, owned;
  };

  WholeParameters(ShardedModel& model, Comm& group) : model_(&model), group_(&group) {}
  int own_slice() const { return slices_[static_cast<std::size_t>(group_->rank())]; }
  std::vector<Exchange> plan(const std::vector<OwnedParameter>& parameters) const;
  Result<void> send(const Exchange& exchange, std::map<std::size_t, Whole>& owned);
  Result<void> send_back(const Exchange& exchange, const std::map<std::size_t, Whole>& owned);
  // Each rank's tensors to it, and the received elements: those of rank 0 first.
  Result<at::Tensor> exchange_tensors(const std::vector<std::vector<at::Tensor>>& to_ranks,
                                      const std::vector<std::int64_t>& received,
                                      at::ScalarType type, std::string_view label);

  ShardedModel* model_;
  Comm* group_;              // of the ranks that have a slice each
  std::vector<int> slices_;  // by rank of the group: the index of its slice
};

}  // namespace lockstep::train

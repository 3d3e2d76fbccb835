// CollectiveOrderChecker: checks that the ranks of a shard group issue the same collectives. Ranks
// whose control flow differs would gather different units at the same time: with wrong numbers, or
// without end. So in the first step a small exchange that describes the action precedes each
// action. In later steps actions are only recorded. At the step's end, before any optimizer steps,
// the ranks compare a checksum of their actions. If ranks differ, all of them get an error with the
// action of each rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/hash.h"
#include "base/result.h"
#include "train/group/mesh.h"

namespace lockstep::train {

class CollectiveOrderChecker {
 public:
  enum class OrderedAction { gather, reduce, finish };

  // names: of the units, for the error. A group of one does not communicate.
  CollectiveOrderChecker(const Mesh& mesh, std::vector<std::string> names);

  // In the first step, waits for the group's other ranks.
  Result<void> record_action(OrderedAction action, int unit);
  // The step is over: on the CPU waits for the others. On a device, in all steps but the first,
  // only starts the comparison: read_checksums() ends it, in the same read of the device as the
  // gradients' norm.
  Result<void> finish();
  // Waits for the checksums of a comparison that finish() left, which it returns: 64-bit floats on
  // the device. Undefined if none is left.
  Result<at::Tensor> wait_checksums();
  // Their values.
  Result<void> compare(const std::vector<double>& checksums);

 private:
  // The actions of a step that can be named; a training without steps records no more.
  static constexpr std::size_t kRecordedMax = 65'536;

  // Exact in a double.
  double checksum() const { return static_cast<double>(sum_.value() >> 11); }
  Result<void> begin_comparison();
  Result<void> end_step(bool equal);
  Result<void> find_difference();
  std::string describe(std::int64_t action) const;
  Error order_error(const std::vector<std::int64_t>& actions) const;

  Comm group_;
  std::vector<int> ranks_;  // the group's, in the world
  std::vector<std::string> names_;
  bool first_step_ = true;
  std::vector<std::int64_t> actions_;  // of this step
  Fnv1a sum_{0};                       // of all of them
  at::Tensor checksums_;               // of the group's ranks, on their way
  Transfer transfer_;
};

}  // namespace lockstep::train

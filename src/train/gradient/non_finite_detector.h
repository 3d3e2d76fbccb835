// NonFiniteDetector: finds the rank that had the first value that is not finite, and the value's
// location. Reductions spread such a value to all ranks, so each rank checks what it computes
// locally: the outputs of blocks, the loss, its own gradients before they are reduced.
//
// A check is a sum: finite only if every element is (or so large that their sum overflows, which is
// as bad). The sum's value is not read, which on a GPU would stop the stream, until the ranks have
// agreed on a norm that is not finite. Then each rank reports the location of its first such value.
// The first location in the step is the result, because all ranks run the same program; of equal
// ones the lowest rank.
//
// Cost: a block's output is read once more, which is little compared with the block's computation.
// Gradients are checked only where they are divided, piece by piece while they are in the cache.
// Without shard groups these are each rank's own. With shard groups they are the shard that hop 1
// has summed, because no other pass touches all of them. So the first error in backward is
// attributed to a rank without shard groups, and to a replica with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/result.h"
#include "train/group/comm.h"

namespace lockstep::train {

// The location of the first value that is not finite.
struct NonFiniteValue {
  static constexpr int kNoRank = -1;  // each rank's own values are finite: their sum is not

  int rank = kNoRank;
  std::string what;  // "the loss in micro-step 2", "the gradients of unit 3 (layers.5)"
  // It was in the sum of a shard group's gradients: from any rank of this rank's replica.
  bool in_replica_sum = false;

  // "rank 2 has the first value that is not finite, in the loss in micro-step 2"
  std::string describe() const;
};

class NonFiniteDetector {
 public:
  // The kind of the checked value: an output of a block, the loss, the gradients of a unit.
  enum class Kind : std::uint8_t { output, loss, gradients };
  struct CheckedValue {
    Kind kind = Kind::output;
    int index = 0;       // of the block or unit
    int micro_step = 1;  // counted from one

    friend bool operator==(const CheckedValue&, const CheckedValue&) = default;
  };
  struct FirstNonFinite {
    int rank = NonFiniteValue::kNoRank;
    CheckedValue value;
  };

  // Tensors that are not floats are skipped.
  void check(CheckedValue value, const at::Tensor& tensor);
  // to = from / divisor (copy_gradient.h), and a check of it in the same pass.
  void divide_and_check(CheckedValue value, const at::Tensor& to, const at::Tensor& from,
                        int divisor);
  // A step is over, with any outcome.
  void clear() { sums_.clear(); }

  // Collective, once the ranks know that something is not finite. Nothing if each of them had
  // finite values only.
  Result<std::optional<FirstNonFinite>> find_first(Comm& world) const;

 private:
  struct CheckedSum {
    CheckedValue value;
    double sum;             // unless it is on a device:
    at::Tensor device_sum;  // read as late as possible
  };
  // Bounds the checks of forwards that no step follows.
  static constexpr std::size_t kMost = 65'536;

  std::int64_t first_on_this_rank() const;

  std::vector<CheckedSum> sums_;  // in the order of the program
};

}  // namespace lockstep::train

// Assigns writes to ranks. Ranks report the parts of each tensor that they hold. A part that
// several ranks hold equally is written once, and they share that work.
//
// Example: two shards of a tensor of 8 elements, each held by two replicas.
//
//   rank 0 holds [0,4)   rank 1 holds [4,8)   rank 2 holds [0,4)   rank 3 holds [4,8)
//   ranks 0 and 2 hold [0,4): 0 writes [0,2), 2 writes [2,4); 1 and 3 do the same with [4,8).
//
// Method. Each tensor falls into intervals at whose every element the same ranks hold it. The
// intervals of one such set of ranks, over all tensors in order, are laid end to end and cut into
// as many parts of equal bytes as the set has ranks. So every set shares evenly, whatever sizes its
// tensors have. A part that only one rank holds cannot be assigned to another rank.
//
// The assignment depends only on the reported parts, so every rank computes the same one locally,
// offsets in files included. Cost: about the number of intervals times its logarithm.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/record.h"
#include "train/checkpoint/format/manifest.h"

namespace lockstep::train {

// A part of a tensor that a rank holds: elements of the flattened tensor.
struct HeldPart {
  std::string name;
  DataType type = DataType::float32;
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool copies_equal = true;  // false: of several holders, the lowest rank's is written

  friend bool operator==(const HeldPart&, const HeldPart&) = default;
  static constexpr auto fields() {
    return record<HeldPart>(field("name", &HeldPart::name, "of the tensor"),
                            field("type", &HeldPart::type, "of its elements"),
                            field("shape", &HeldPart::shape, "global"),
                            field("begin", &HeldPart::begin, "the first element held"),
                            field("end", &HeldPart::end, "the element behind the last"),
                            field("copies_equal", &HeldPart::copies_equal, "over the ranks"));
  }
};

// Ranks that hold the same parts.
struct SharedParts {
  std::vector<std::int64_t> ranks;
  std::vector<HeldPart> parts;
};

struct WriteAssignment {
  std::vector<SavedTensor> tensors;      // a slice's `file` is the rank that writes it
  std::vector<std::int64_t> file_sizes;  // of each rank's file
};

// ranks: their number. invalid if the ranks contradict each other about a tensor, or if no rank
// holds a part of one.
Result<WriteAssignment> assign_writes(const std::vector<SharedParts>& holders, std::int64_t ranks);

}  // namespace lockstep::train

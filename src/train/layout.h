// Layout: where each parameter lives. Plain data, the one truth for units, optimizer and
// checkpoint: a parameter is an interval of a unit's flat buffer, and the buffer is cut into equal
// slices, of which this rank's optimizer has one (the whole while nothing is divided).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <c10/core/ScalarType.h>

#include "train/policy.h"

namespace lockstep {

// Half-open, in elements.
struct Interval {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
  friend bool operator==(const Interval&, const Interval&) = default;
};

// A parameter as the model declares it.
struct ParameterSpec {
  static constexpr int kRoot = -1;

  std::string name;
  std::vector<std::int64_t> shape;  // global
  at::ScalarType type = at::ScalarType::Float;
  int block = kRoot;  // which of the blocks that the user named has it
  // A frozen one needs neither gradient nor optimizer state.
  bool trainable = true;

  std::int64_t elements() const;
};

struct ParameterPlace {
  ParameterSpec spec;
  int unit = 0;
  std::int64_t offset = 0;  // of its first element in the unit
  Interval owned;           // in elements of the parameter; may be empty
};

struct UnitPlace {
  at::ScalarType type = at::ScalarType::Float;
  // The block that it is, whose parameters are gathered for use; kRoot: whole all the time.
  int block = ParameterSpec::kRoot;
  std::int64_t elements = 0;  // with the padding that aligns parameters and slices
  // Of the elements: what this rank's optimizer steps; of a frozen unit the rank's shard.
  Interval slice;
  std::vector<int> parameters;
  bool trainable = true;  // or frozen, all of it
};

// Which of the slices of each unit is this rank's.
struct SliceNumber {
  int index = 0;
  int count = 1;
};

struct Layout {
  std::vector<ParameterPlace> parameters;  // in the order of declaration
  std::vector<UnitPlace> units;            // in the order in which backward completes them

  // Where the policy divides parameters, each block is a unit (of one type each). All else lies in
  // buckets of one type, cut by bytes in reverse order of declaration, since backward comes to the
  // last layer first; they stand behind the blocks, since the root is complete only at the end. A
  // parameter is never cut into two units: one larger than a bucket has its own. Frozen parameters
  // have units of their own, behind all others.
  static Layout build(std::vector<ParameterSpec> parameters, const Policy& policy,
                      SliceNumber slice = {});
};

// In which the optimizer computes, and gradients are summed: 32 bits for floats of 16.
at::ScalarType exact_type(at::ScalarType type);

}  // namespace lockstep

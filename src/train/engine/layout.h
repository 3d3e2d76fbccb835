// Layout: the location of each parameter. Plain data, shared by units, optimizer and checkpoint: a
// parameter is an interval of a unit's flat buffer. The buffer is cut into equal slices, of which
// this rank's optimizer has one (all of it while nothing is divided).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <c10/core/ScalarType.h>

#include "train/policy.h"

namespace lockstep::train {

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
  int block = kRoot;  // the user-named block that has it
  // A frozen one needs neither gradient nor optimizer state.
  bool trainable = true;

  std::int64_t elements() const;
};

struct ParameterLayout {
  ParameterSpec spec;
  int unit = 0;
  std::int64_t offset = 0;  // of its first element in the unit
  Interval owned;           // in elements of the parameter; may be empty
};

struct UnitLayout {
  at::ScalarType type = at::ScalarType::Float;
  // The block that is the unit, whose parameters are gathered for use; kRoot: always whole.
  int block = ParameterSpec::kRoot;
  std::int64_t elements = 0;  // with the padding that aligns parameters and slices
  // The elements that this rank's optimizer steps; for a frozen unit the rank's shard.
  Interval slice;
  std::vector<int> parameters;
  bool trainable = true;  // or frozen, all of it
};

// The index of this rank's slice in each unit; kNone: it has none.
struct SliceIndex {
  static constexpr int kNone = -1;
  int index = 0;
  int count = 1;
};

struct Layout {
  std::vector<ParameterLayout> parameters;  // in the order of declaration
  std::vector<UnitLayout> units;            // in the order in which backward completes them

  // If the policy divides parameters, each block is a unit (of one type each). All other parameters
  // lie in buckets of one type, cut by bytes in reverse order of declaration, because backward
  // reaches the last layer first. The buckets come after the blocks, because the root is complete
  // only at the end. A parameter is never cut into two units: one larger than a bucket has its own.
  // Frozen parameters have units of their own, after all others.
  static Layout build(std::vector<ParameterSpec> parameters, const Policy& policy,
                      SliceIndex slice = {});

  // The elements of a trainable parameter, counted from its first, in the slice of this index.
  Interval part_in_slice(std::size_t parameter, int slice) const;
};

// The type in which the optimizer computes, and gradients are summed: 32 bits for 16-bit floats.
at::ScalarType accumulation_type(at::ScalarType type);

}  // namespace lockstep::train

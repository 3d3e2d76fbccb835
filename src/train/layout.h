// Layout: where each parameter lives. Plain data, the one truth for units, optimizer and
// checkpoint: a parameter is an interval of a unit's flat buffer, and of that interval this rank
// owns a part (all of it while nothing is sharded).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include "base/result.h"
#include "train/policy.h"

namespace torch::nn {
class Module;
}

namespace lockstep {

// Half-open, in elements.
struct Interval {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  friend bool operator==(const Interval&, const Interval&) = default;
};

// A parameter as the model declares it.
struct ParameterSpec {
  std::string name;
  std::vector<std::int64_t> shape;  // global
  at::ScalarType type = at::ScalarType::Float;

  std::int64_t elements() const;
};

struct ParameterPlace {
  ParameterSpec spec;
  int unit = 0;
  std::int64_t offset = 0;  // of its first element in the unit
  Interval owned;           // in elements of the parameter
};

struct UnitPlace {
  at::ScalarType type = at::ScalarType::Float;
  std::int64_t elements = 0;  // with the padding that keeps parameters aligned
  std::vector<int> parameters;
};

struct Layout {
  std::vector<ParameterPlace> parameters;  // in the order of declaration
  std::vector<UnitPlace> units;            // in the order in which backward completes them

  // Units are buckets of one type, cut by bytes in reverse order of declaration, since backward
  // comes to the last layer first. A parameter is never cut: one larger than a bucket has its own.
  static Layout build(std::vector<ParameterSpec> parameters, const Policy& policy);
};

}  // namespace lockstep

// Source: readings of a host or its devices, for curves over time. docs/design/telemetry.md lists
// the metrics.
//
// A source reads below a root folder, "/" in programs. Its reading has only what is there: a file
// or a function that is missing, or that answers nonsense, leaves its metrics out, because a
// missing reading is unknown and not 0.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/units.h"

namespace lockstep::telemetry {

// By the name of the metric.
using Readings = std::map<std::string, double>;

class Source {
 public:
  virtual ~Source() = default;
  // Adds its readings. `now` is on a clock that does not jump; it ascends from call to call. A rate
  // is that since the last call, so the first call has none.
  virtual void read(Duration now, Readings& readings) = 0;
};

using Sources = std::vector<std::unique_ptr<Source>>;

}  // namespace lockstep::telemetry

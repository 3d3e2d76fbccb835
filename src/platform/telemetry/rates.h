// Rates: counters of the kernel and of devices, as a change per second.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/units.h"

namespace lockstep::telemetry {

class Rates {
 public:
  // The change per second of the counter since the last call with its name. nullopt: this is the
  // first call, no time has passed, or the counter has begun again. `wraps_at`: the value after
  // which it begins at 0; 0: it never does.
  std::optional<double> per_second(const std::string& counter, double value, Duration now,
                                   double wraps_at = 0);

 private:
  struct Last {
    double value = 0;
    Duration at{};
  };
  std::map<std::string, Last> last_;
};

}  // namespace lockstep::telemetry

// What `lockstep probe` and `lockstep tune` write into a map's file.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "map/map.h"

namespace lockstep {

// Refuses a file that could not be kept up: before seconds go into a measurement.
Result<void> check_measured_file(const std::string& file);

// Writes what was measured as `change` leaves it, which gets it as the file had it; all else stays.
// Says so.
Result<void> update_measured(const std::string& file,
                             const std::function<void(Measured& measured)>& change);

}  // namespace lockstep

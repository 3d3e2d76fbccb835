// The measurements that `lockstep probe` and `lockstep tune` write to a map's file.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "map/map.h"

namespace lockstep::cli {

// Refuses a file that could not be updated, before seconds go into a measurement.
Result<void> check_measured_file(const std::string& file);

// Writes the measurements of the file after `change` has updated them; all else stays. Prints a
// message.
Result<void> update_measured(const std::string& file,
                             const std::function<void(map::Measured& measured)>& change);

}  // namespace lockstep::cli

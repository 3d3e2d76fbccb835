// Times on the command line.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace lockstep::cli {

// "2026-11-22T12:00:00Z"; "2026-11-22", its first moment in UTC; or "2h", so long ago.
Result<Time> past_time_option(std::string_view option, const std::string& words);
// The same; "30d" is so long from now.
Result<Time> future_time_option(std::string_view option, const std::string& words);

}  // namespace lockstep::cli

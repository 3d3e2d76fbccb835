// The errors of ssh and of the scripts that it runs, with what to do about each. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace lockstep::host_setup {

inline constexpr int kSshFailed = 255;  // ssh's own exit status; others are the script's

Error connection_error(const std::string& target, std::string_view errors);
Error script_error(int status, std::string_view errors);
Error timeout_error(Duration limit);

}  // namespace lockstep::host_setup

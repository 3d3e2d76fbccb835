// When a target is tried again.
#pragma once

#include <chrono>

#include "base/units.h"

namespace lockstep::notice {

inline constexpr Duration kGivenUpAfter = std::chrono::hours(24);  // the age of a notice

// After so many failed tries in a row: 10 s, doubling to 1 h.
Duration pause_after(int failures);

}  // namespace lockstep::notice

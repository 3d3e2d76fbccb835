// Plain scalars of YAML, by the core schema of YAML 1.2 (chapter 10.3.2).
#pragma once

#include <string>

#include "base/result.h"
#include "text/json.h"

namespace lockstep {

// null, bool, integer, float or string. .nan and .inf become "NaN", "Infinity" and "-Infinity".
Result<Json> parse_plain_scalar(const std::string& input);

}  // namespace lockstep

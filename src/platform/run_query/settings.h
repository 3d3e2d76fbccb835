// The settings of a run, read from its command: --lr 3e-4, --lr=3e-4, and lr=3e-4 as Hydra has it.
// web/src/text/settings.ts reads the same.
#pragma once

#include <map>
#include <span>
#include <string>

namespace lockstep::run_query {

// By name. An option without a value is "true"; the last of equal names counts.
std::map<std::string, std::string> settings_of(std::span<const std::string> command);

}  // namespace lockstep::run_query

// The program of the agents, in the folder that all hosts share.
#pragma once

#include <filesystem>

#include "base/result.h"

namespace lockstep::engine {

// Copies this program to `home`/bin/VERSION/lockstep, unless it is there. Other versions stay,
// since agents may run them.
Result<std::filesystem::path> share_own_program(const std::filesystem::path& home);
// Removes the other versions. No agent may run.
void remove_other_programs(const std::filesystem::path& home, const std::filesystem::path& own);

}  // namespace lockstep::engine

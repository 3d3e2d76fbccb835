// Who submits a run, and from which commit of the code.
#pragma once

#include <filesystem>
#include <string>

#include "platform/core/model/run.h"

namespace lockstep {

// Of this process.
std::string user_name();

// Asks git about the run's working folder, for at most two seconds a question; a tree whose changes
// are not known by then counts as changed.
Origin origin_of(const std::filesystem::path& working_folder);

}  // namespace lockstep

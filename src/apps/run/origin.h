// The origin of a run: the user that submits it and the commit of the code.
#pragma once

#include <filesystem>
#include <string>

#include "platform/core/model/run.h"

namespace lockstep::cli {

// The user of this process.
std::string user_name();

// Asks git about the run's working folder, for at most two seconds a call. If the changes of the
// tree are not known by then, it counts as changed.
model::Origin origin_of(const std::filesystem::path& working_folder);

}  // namespace lockstep::cli

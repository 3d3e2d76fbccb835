// The origin of a run: the user that submits it and the commit of the code.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "platform/core/model/run.h"

namespace lockstep::cli {

// The user of this process.
std::string user_name();

// Asks git about the run's working folder, for at most two seconds a call. If the changes of the
// tree are not known by then, it counts as changed.
model::Origin origin_of(const std::filesystem::path& working_folder);

// The changes of tracked files that are not committed, as `git apply` takes them, read within five
// seconds. Untracked files are not among them. Code::invalid: more than 16 MiB.
Result<std::string> uncommitted_changes(const std::filesystem::path& working_folder);

}  // namespace lockstep::cli

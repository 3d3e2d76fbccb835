// The marker of a shared folder: a file in it by which machines see that they share it.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace lockstep::host {

// The folder in it below which checkpoints are.
std::filesystem::path shared_checkpoints(const std::filesystem::path& folder);
// Reads the marker, and makes it if there is none. Errors: the folder is missing, or nothing can be
// written there.
Result<std::string> make_shared_marker(const std::filesystem::path& folder);
// Empty: the folder is missing or has no marker, or this user may not write to it.
std::string shared_marker(const std::filesystem::path& folder);

}  // namespace lockstep::host

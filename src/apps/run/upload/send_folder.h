// Sends a folder to the daemon: the files that it does not have yet.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "platform/client/client.h"

namespace lockstep::cli {

// The id of the folder, for RunSpec::upload. Shows its progress, what was sent and what was left
// out on standard error.
Result<std::string> send_folder(client::Client& client, const std::filesystem::path& folder);

}  // namespace lockstep::cli

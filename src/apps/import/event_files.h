// TensorBoard's event files of a folder, into a run.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "apps/import/run_import.h"

namespace lockstep::cli {

// The event files below the folder, by folder and then by name, which begins with a time.
Result<std::vector<std::filesystem::path>> find_event_files(const std::filesystem::path& folder);

// Sends what the run does not have of each file. The metrics of a file in a folder below `folder`
// have the path of that folder before their names. A damaged file is read up to the damage, with a
// message on standard error.
Result<void> import_event_files(client::Client& client, const model::RunId& run,
                                const std::filesystem::path& folder,
                                const std::vector<std::filesystem::path>& files,
                                ImportCounts& counts);

}  // namespace lockstep::cli

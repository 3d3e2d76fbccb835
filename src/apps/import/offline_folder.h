// The folder into which `lockstep.log` writes without a daemon (LOCKSTEP_OFFLINE), into a run.
#pragma once

#include <filesystem>
#include <string>

#include "apps/import/run_import.h"

namespace lockstep::cli {

struct OfflineRun {
  std::string id;  // random, of the folder
  std::string name{};
};

// Code::not_found: the folder is none of lockstep.log.
Result<OfflineRun> read_offline_run(const std::filesystem::path& folder);

// Sends what the run does not have: each line of each rank once. A line that cannot be read is left
// out and counted.
Result<void> import_offline(client::Client& client, const model::RunId& run,
                            const std::filesystem::path& folder, ImportCounts& counts);

}  // namespace lockstep::cli

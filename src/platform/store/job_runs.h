// The runs of a job: those that another launcher has started, and imports.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "platform/core/model/ids.h"
#include "platform/store/database.h"

namespace lockstep::store {

struct JobRun {
  model::RunId run;
  std::string generation;
};

// The user's newest run of this job in the project, ended or not.
Result<std::optional<JobRun>> newest_run_of_job(Database& database, const std::string& project,
                                                const std::string& job, const std::string& user);

}  // namespace lockstep::store

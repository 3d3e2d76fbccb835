#include "platform/store/job_runs.h"

#include <cstdint>
#include <utility>

namespace lockstep::store {

Result<std::optional<JobRun>> newest_run_of_job(Database& database, const std::string& project,
                                                const std::string& job, const std::string& user) {
  std::optional<JobRun> newest;
  // `job <> ''` is the condition of the index.
  for (auto& [number, generation] : TRY((database.rows<std::int64_t, std::string>(
           "select number, generation from runs where job = :job and job <> '' and project = "
           ":project and origin ->> 'user' = :user order by number desc limit 1",
           job, project, user))))
    newest = JobRun{{project, number}, std::move(generation)};
  return newest;
}

}  // namespace lockstep::store

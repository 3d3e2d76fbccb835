// LaunchedJob: the job of the process that started this one, as its launcher's variables name it
// (docs/design/external-runs.md).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/os/environment.h"
#include "base/result.h"
#include "platform/api/external_messages.h"

namespace lockstep::cli {

struct LaunchedJob {
  int rank = 0;
  std::optional<int> local_rank{};
  std::string folder;                // names the job's folder on this host
  api::ExternalNodeRequest request;  // without the agent's parts and the origin
};

// `process`: the rank. `environment` is its own.
Result<LaunchedJob> launched_job_of(pid_t process, const Environment& environment);

// The number of nodes and of ranks on each, as far as the launcher says it.
struct JobShape {
  int ranks = 1;
  std::optional<int> ranks_on_host{};
  std::optional<int> hosts{};
};
void set_shape(model::RunSpec& spec, const JobShape& shape);

// "/usr/bin/python3 -u train.py --lr 1": train. Options of the interpreter are passed over.
std::string script_name(const std::vector<std::string>& command);

}  // namespace lockstep::cli

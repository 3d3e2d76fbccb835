// TakenRun: a run as read from a job file or command line of another system
// (docs/design/job-files.md).
#pragma once

#include <string>
#include <vector>

#include "platform/core/model/run.h"

namespace lockstep::job_files {

struct TakenRun {
  model::RunSpec spec;
  std::vector<std::string> left_out;  // the parts that have no place in the run, one line each
};

// As a run file, without values that are the defaults; values of environment variables are hidden.
std::string run_file_text(const model::RunSpec& spec);

}  // namespace lockstep::job_files

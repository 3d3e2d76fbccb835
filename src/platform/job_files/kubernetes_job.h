// A Job or Pod of Kubernetes as a run.
#pragma once

#include <string_view>

#include "base/result.h"
#include "platform/job_files/taken_run.h"

namespace lockstep::job_files {

// It has lines with apiVersion and kind.
bool is_kubernetes_file(std::string_view content);
// The Job or Pod among the documents of the file. `name`: of the file, for errors.
Result<TakenRun> run_of_kubernetes_file(std::string_view content, std::string_view name);

}  // namespace lockstep::job_files

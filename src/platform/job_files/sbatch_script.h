// A script for Slurm's sbatch as a run: its lines are read, not executed.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "platform/job_files/shell_line.h"
#include "platform/job_files/taken_run.h"

namespace lockstep::job_files {

// It begins with `#!` and has an option for sbatch.
bool is_sbatch_script(std::string_view content);
// `name`: of the file, for errors, which name the line. `environment`: of the submitter, which a
// script sees. Paths stay relative.
Result<TakenRun> run_of_sbatch_script(std::string_view content, std::string_view name,
                                      const ShellVariables& environment = {});

// As sbatch --time takes it: minutes, minutes:seconds, hours:minutes:seconds, days-hours and so on.
Result<Duration> parse_slurm_time(std::string_view input);

}  // namespace lockstep::job_files

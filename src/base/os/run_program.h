// Runs a program to its end and takes what it prints.
#pragma once

#include <string>
#include <vector>

#include "base/os/environment.h"
#include "base/result.h"
#include "base/units.h"

namespace lockstep {

struct ProgramEnd {
  int status = 0;  // as a shell shows it: 128 and the number of a signal; 0 if another thread of
                   // this process has reaped the program
  std::string output;  // standard output and errors, at most 1 MiB; without white space at the end
  std::string errors{};  // standard error, if it is separate: the same bound
};

enum class StandardError { with_output, separate };

// In the folder /. A name without '/' is looked up in PATH. Code::not_found: there is no such
// program. Code::timeout: it was killed after `limit`.
Result<ProgramEnd> run_program(const std::vector<std::string>& command, Duration limit,
                               const Environment& environment = own_environment(),
                               StandardError errors = StandardError::with_output);

}  // namespace lockstep

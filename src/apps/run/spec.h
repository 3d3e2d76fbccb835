// Builds the spec of a submission from arguments or a file.
#pragma once

#include <string>
#include <vector>

#include "apps/run/spec_options.h"
#include "base/result.h"
#include "platform/core/model/run.h"

namespace lockstep::cli {

struct RunFlags {
  std::vector<std::string> arguments;  // the command, or one file
  SpecOptions spec;
  std::vector<std::string> env;      // NAME=VALUE, or NAME
  std::vector<std::string> secrets;  // VARIABLE=SECRET, or SECRET for both
  bool as_is = false;                // the command is not read as one of another system
  std::string replace_backend;       // sets the variable kReplaceBackend; empty: not
  bool wandb = false;                // sets the variable kWandb
  bool horovod = false;              // sets the variable kHorovod
};

// Where the run's files and programs are.
enum class RunFiles {
  here,
  elsewhere,  // on machines of a remote daemon: nothing of them is checked here
};

struct ReadSpec {
  model::RunSpec spec;
  std::string reading;  // how a job file of another system was read, for the user; empty: none was
};

// The spec of the file, if one is given, with the flags' values over its own, and with the
// submitter's environment variables that a program needs on this machine. Checked as far as
// possible here: errors name the file's line or the flag, or say that the command names no program.
Result<ReadSpec> spec_of(const RunFlags& flags, RunFiles files);

// The spec of another run with the flags' values over its own. The new run has a checkpoint folder
// of its own, and waits neither for the runs nor for the moment that the other one waited for.
Result<model::RunSpec> forked_spec(const RunFlags& flags, const model::RunSpec& source);

}  // namespace lockstep::cli

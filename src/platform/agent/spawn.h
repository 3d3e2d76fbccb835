// Starting a rank's process.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/fd.h"
#include "base/result.h"

namespace lockstep {

struct Program {
  std::vector<std::string>
      command;  // not empty; a name without '/' is sought in environment's PATH
  std::map<std::string, std::string> environment;  // all of it
  std::filesystem::path folder;
};

struct Child {
  pid_t pid = 0;
  Fd output;  // standard output and error in one, so that their order is kept; does not block
};

// Starts it with input from /dev/null, in a process group of its own, with default signal handling,
// to die when the calling *thread* ends. An error names what is missing (program, folder, right to
// execute); then no process is left. The child is to be reaped by the caller.
Result<Child> spawn(const Program& program);

}  // namespace lockstep

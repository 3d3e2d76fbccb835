// Starting a program: fork and exec, in one place.
//
// The child shares nothing with its starter but what is named here: input from /dev/null, output
// and errors in one file or pipe, no other file open, default signal handling and an empty signal
// mask, its own environment and folder. The call returns once the program runs; when it cannot, the
// error names what is missing (program, folder, right to execute) and no process is left.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/environment.h"
#include "base/fd.h"
#include "base/result.h"

namespace lockstep {

struct Program {
  // Not empty; a name without '/' is sought in the environment's PATH.
  std::vector<std::string> command;
  Environment environment;  // all of it
  std::filesystem::path folder;
  int output = -1;  // where standard output and error go, so that their order is kept; borrowed
  // On which it runs, as sched_setaffinity counts them; empty: as its starter.
  std::vector<int> processors{};
};

// What ties a child to who started it.
enum class Bond {
  thread,   // leads a process group; killed when the calling *thread* ends
  session,  // leads a session: outlives the terminal and its starter
};

// The child is to be reaped by the caller.
Result<pid_t> spawn(const Program& program, Bond bond);

// In a session of its own and nobody's child here: whoever is init reaps it.
Result<void> spawn_detached(const Program& program);

// Two ends; neither is inherited by programs.
struct Pipe {
  Fd read, write;
};
Result<Pipe> make_pipe();

}  // namespace lockstep

// Starts a program: fork and exec, in one function.
//
// The child inherits only what is named here: input from /dev/null or one file, output and errors
// in one file or pipe, no other file open, default signal handling and an empty signal mask, a
// given environment and folder. It may run with the files of a container, as a child like any
// other: it joins the mount and user namespaces of a process there, and no other namespace. The
// call returns once the program runs. If it cannot run, the error names what is missing (program,
// folder, permission to execute) and no process is left.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/os/account.h"
#include "base/os/environment.h"
#include "base/os/fd.h"
#include "base/result.h"

namespace lockstep {

struct ProcessSpec {
  // Not empty; a name without '/' is looked up in the environment's PATH.
  std::vector<std::string> command;
  // The file to execute, if it is not command[0]; the program sees command[0] as its name.
  std::filesystem::path file{};
  Environment environment;  // all of it
  std::filesystem::path folder;
  int input = -1;   // for standard input; borrowed; none: /dev/null
  int output = -1;  // for standard output and error, so that their order is kept; borrowed
  int errors = -1;  // for standard error, if it does not belong to the output; borrowed
  // The processors for it, numbered as in sched_setaffinity; empty: those of its parent.
  std::vector<int> processors{};
  std::optional<Account> account{};  // it runs as this one; only root may start it so
  // Files cgroup.procs of the control groups that it joins, before it becomes the account.
  std::vector<std::filesystem::path> cgroups{};
  // A process of the container whose files the program sees; the folder, the file and the PATH are
  // looked up there. 0: the files of its parent.
  pid_t container = 0;
};

// How the child's lifetime depends on its parent.
enum class ProcessLifetime {
  ends_with_thread,  // leads a process group; killed when the calling *thread* ends
  own_session,       // leads a session: outlives the terminal and its starter
};

// The caller must reap the child.
Result<pid_t> spawn(const ProcessSpec& program, ProcessLifetime lifetime);

// Starts it in its own session. It is no child of this process: init reaps it.
Result<void> spawn_detached(const ProcessSpec& program);

// Two ends; neither is inherited by programs.
struct Pipe {
  Fd read, write;
};
Result<Pipe> make_pipe();

}  // namespace lockstep

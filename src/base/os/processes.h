// Processes as /proc shows them: their descendants, and the processes that carry a variable in
// their environment. The kernel shows the environment with which a program was started. All
// processes that it starts inherit the variable, also those that leave its session, so it marks a
// whole tree.
//
// Only environment_variable_of() reads the process's memory, and so may wait for a process whose
// memory is locked for as long as that lasts; the other functions never wait.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "base/units.h"

namespace lockstep {

struct Process {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  // As in proc(5): R runs, S sleeps, D is blocked in the kernel, T or t is stopped.
  char state = '?';
  std::uint64_t started = 0;  // clock ticks since the boot: with the pid it identifies one process
  // CPU time of its threads and of the children that it has waited for.
  Duration cpu_time{};
  bool is_ending = false;  // its threads are exiting; its files may be closed already
  // Address of the environment in the process's memory. Each exec allocates a new one, so with the
  // two fields above it identifies one program. 0: the process is in exec, or we may not read it.
  std::uint64_t environment = 0;
};

// All living processes of this user, by pid, without zombies. One scan costs some 10 us a process.
std::vector<Process> processes_of_user();
// The same for all users.
std::vector<Process> all_processes();

// Nothing if it has ended.
std::optional<Process> find_process(pid_t pid);

// A string that changes whenever the process's main thread has run; empty if the kernel does not
// report it.
std::string schedule_stats_of(pid_t pid);

// The value with which the process was started; nothing if it has ended or lacks the variable.
std::optional<std::string> environment_variable_of(pid_t pid, std::string_view variable);

// The processes in `all` that descend from `ancestor`, without itself.
std::vector<Process> descendants(const std::vector<Process>& all, pid_t ancestor);

}  // namespace lockstep

// Processes as /proc shows them: who descends from whom, and who carries a variable in
// its environment. The kernel shows the environment that a program was started with; all that it
// starts inherits the variable, also what leaves its session, so it marks a whole tree.
//
// Only environment_of() reads the process's memory, and so may wait for a process whose memory is
// locked for as long as that lasts; the others never wait.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace lockstep {

struct Process {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  // As in proc(5): R runs, S sleeps, D is blocked in the kernel, T or t is stopped.
  char state = '?';
  std::uint64_t started = 0;  // clock ticks since the boot: with the pid it names one process only
  bool is_ending = false;     // its threads are on their way out; its files may be closed already
  // Where the environment lies in its memory. Each exec lays it anew, so with the two above this
  // names one program only. 0: in the midst of exec, or not for us to read.
  std::uint64_t environment = 0;
};

// All living ones, by pid; zombies have ended and are left out. One scan costs some 10 us a
// process.
std::vector<Process> processes_of_user();
// The same of all users.
std::vector<Process> all_processes();

// Nothing when it has ended.
std::optional<Process> find_process(pid_t pid);

// A word that changes whenever the process's main thread has run; empty if the kernel does not say.
std::string run_count_of(pid_t pid);

// The value with which the process was started; nothing when it is gone or without the variable.
std::optional<std::string> environment_of(pid_t pid, std::string_view variable);

// Those of `all` that descend from `ancestor`, without itself.
std::vector<Process> descendants(const std::vector<Process>& all, pid_t ancestor);

}  // namespace lockstep

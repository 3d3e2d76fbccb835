// Processes of this user as /proc shows them: who descends from whom, and who carries a variable in
// its environment. The kernel shows the environment that a program was started with; all that it
// starts inherits the variable, also what leaves its session, so it marks a whole tree.
//
// Limits: a program that clears its environment (env -i) or writes over it loses the mark, and one
// that is in the midst of exec shows no environment for a moment. Who must be sure looks twice.
#pragma once

#include <cstdint>
#include <map>
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
  // As in proc(5): R runs, S sleeps, D is blocked in the kernel, T or t is stopped.
  char state = '?';
};

// All living ones, by pid; zombies have ended and are left out. One scan costs some 10 us a
// process.
std::vector<Process> processes_of_user();

// The value with which the process was started; nothing when it is gone or without the variable.
std::optional<std::string> environment_of(pid_t pid, std::string_view variable);

// Those that were started with the variable, and its value: cheaper than asking each.
std::map<pid_t, std::string> processes_with(std::string_view variable);

// Those of `all` that descend from `ancestor`, without itself.
std::vector<Process> descendants(const std::vector<Process>& all, pid_t ancestor);

}  // namespace lockstep

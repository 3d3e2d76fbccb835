// A process as another one recognises it, also when its pid was given again.
#pragma once

#include <cstdint>
#include <string>

#include <sys/types.h>

namespace lockstep {

// When it began, in the kernel's clock ticks since boot; 0 when there is no such process, or it is
// a zombie.
std::uint64_t process_start(pid_t pid);
// Where pids mean the same processes: this boot and this namespace. Empty when unknown.
std::string pid_space();

}  // namespace lockstep

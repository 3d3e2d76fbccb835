// The identity of a process for other processes, even if its pid is reused.
#pragma once

#include <cstdint>
#include <string>

#include <sys/types.h>

namespace lockstep::comm {

// The start time, in the kernel's clock ticks since boot; 0 when there is no such process, or it is
// a zombie.
std::uint64_t process_start(pid_t pid);
// The scope in which a pid identifies a process: this boot and this namespace. Empty when unknown.
std::string pid_space();

}  // namespace lockstep::comm

// The GPUs that CUDA_VISIBLE_DEVICES names to a process of another launcher.
#pragma once

#include <string_view>
#include <vector>

#include <sys/types.h>

#include "platform/telemetry/device_sources.h"

namespace lockstep::agent {

// Adds those of a value such as "0,3" or "GPU-8f2c,GPU-91aa" that are not there yet. A UUID gets
// the next number. As in CUDA, the value ends at the first word that names no GPU.
void add_named_gpus(std::string_view value, std::vector<telemetry::GpuOfRun>& gpus);
// Adds those of the environment with which a process of this user began. Without the variable it
// adds nothing: no GPU is known to be the process's.
void add_visible_gpus(pid_t process, std::vector<telemetry::GpuOfRun>& gpus);

}  // namespace lockstep::agent

// An agent in a step of Slurm.
#pragma once

#include "base/os/environment.h"
#include "platform/host/launch_spec.h"

namespace lockstep::agent {

bool is_slurm_step(const Environment& environment);

// In a step, Slurm has chosen which GPUs of the host the node gets: the launch names those. Without
// a step, or without one GPU for each rank, they stay as they are. A launch without a host gets
// that of the step, which Slurm has chosen.
void use_place_of_slurm_step(host::LaunchSpec& launch, const Environment& environment);

}  // namespace lockstep::agent

// Parts of hosts: a host with GPUs of several types counts as one host for each type, so that the
// free GPUs of each type are counted.
#pragma once

#include <string>
#include <vector>

#include "platform/engine/slurm/slurm_output.h"

namespace lockstep::engine {

// A host g3 with "gpu:a100:2,gpu:h100:6" becomes g3.gpu-a100 and g3.gpu-h100, each with its share
// of the cores and the memory. A host whose GPUs have one type stays as it is. So does one of which
// some have none: Slurm has no request for those alone.
std::vector<SlurmHost> parts_by_gpu_type(std::vector<SlurmHost> hosts);

}  // namespace lockstep::engine

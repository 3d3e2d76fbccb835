// The map of a cluster that Slurm manages.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "map/map.h"
#include "platform/engine/slurm/slurm_commands.h"
#include "platform/engine/slurm/slurm_output.h"

namespace lockstep::engine {

// A leaf for each leaf switch, a pod for each switch that has no switch above it. Without switches
// all hosts are in one leaf. A host's devices are its GPUs, or its cores if it has none.
map::ClusterMap map_of_slurm(const std::vector<SlurmHost>& hosts,
                             const std::vector<SlurmSwitch>& switches);

// Those of the partition; empty: of Slurm's default one.
Result<std::vector<SlurmHost>> list_slurm_hosts(SlurmCommands& slurm, const std::string& partition);
Result<map::ClusterMap> discover_slurm(SlurmCommands& slurm, const std::string& partition);

}  // namespace lockstep::engine

// The map of a cluster that Slurm manages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "map/map.h"
#include "platform/engine/slurm/slurm_commands.h"
#include "platform/engine/slurm/slurm_output.h"
#include "platform/engine/slurm/slurm_partitions.h"

namespace lockstep::engine {

enum class HostsChosenBy : std::uint8_t { lockstep, slurm };

// A leaf for each leaf switch, a pod for each switch that has no switch above it. Without switches
// all hosts are in one leaf. Each partition that is used has pods of its own, and so have the parts
// of hosts with GPUs of one type. A host's devices are
// its GPUs, or its cores if it has none; its labels are its partitions, the types of its GPUs, and
// its features.
map::ClusterMap map_of_slurm(const std::vector<SlurmHost>& hosts,
                             const std::vector<SlurmSwitch>& switches,
                             HostsChosenBy chosen_by = HostsChosenBy::lockstep);

// Those of the partitions; empty: of Slurm's default one. Where Lockstep chooses the hosts, a host
// with several types of GPUs is a part for each.
Result<std::vector<SlurmHost>> list_slurm_hosts(SlurmCommands& slurm,
                                                const std::vector<SlurmPartition>& partitions,
                                                HostsChosenBy chosen_by);
// Without a topology there are none.
std::vector<SlurmSwitch> list_slurm_switches(SlurmCommands& slurm);
Result<map::ClusterMap> discover_slurm(SlurmCommands& slurm,
                                       const std::vector<SlurmPartition>& partitions,
                                       HostsChosenBy chosen_by);

}  // namespace lockstep::engine

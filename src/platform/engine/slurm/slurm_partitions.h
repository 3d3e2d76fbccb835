// The partitions of Slurm whose hosts a daemon uses.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "map/map.h"
#include "platform/engine/slurm/slurm_output.h"

namespace lockstep::engine {

struct SlurmPartition {
  std::string name;
  // The devices of its hosts; none: their GPUs, or the cores of a host without GPUs.
  std::optional<map::DeviceKind> kind{};
  bool operator==(const SlurmPartition&) const = default;
};

// "NAME", or one for each kind of device: "gpu=NAME,core=NAME". Empty: none.
Result<std::vector<SlurmPartition>> parse_slurm_partitions(std::string_view words);

// Those of the partitions, each with the first of these that has it. Hosts without GPUs are left
// out where the devices are GPUs.
std::vector<SlurmHost> hosts_of_partitions(std::vector<SlurmHost> hosts,
                                           const std::vector<SlurmPartition>& partitions);

}  // namespace lockstep::engine

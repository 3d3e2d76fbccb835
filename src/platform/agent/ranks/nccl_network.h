// The network that NCCL uses between hosts, NCCL_NET_PLUGIN.
#pragma once

#include <filesystem>
#include <string>

namespace lockstep::agent {

struct NcclNetwork {
  std::string plugin;    // NCCL_NET_PLUGIN; empty: NCCL's own networks
  std::string provider;  // of libfabric, for that plugin
  std::string reason;    // for the agent's log
};

// Lockstep's plugin where the host has a network that NCCL lacks and libfabric serves: EFA, or
// Slingshot (cxi). Never in place of NCCL's own InfiniBand and RoCE. classes: the kernel's folder
// of devices by class. library: Lockstep's plugin, which may be missing.
NcclNetwork choose_nccl_network(const std::filesystem::path& library,
                                const std::filesystem::path& classes = "/sys/class");

// Beside this program, as it is installed or built. Need not exist.
std::filesystem::path nccl_plugin_library();

}  // namespace lockstep::agent

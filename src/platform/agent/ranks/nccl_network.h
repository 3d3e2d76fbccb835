// The network that NCCL uses between hosts, NCCL_NET_PLUGIN.
#pragma once

#include <filesystem>
#include <string>

#include "base/os/environment.h"

namespace lockstep::agent {

struct NcclNetwork {
  std::string plugin;    // NCCL_NET_PLUGIN, to set; empty: it stays as it is
  std::string provider;  // of libfabric, for that plugin
  std::string reason;    // for the agent's log and `lockstep show`
};

// Lockstep's plugin where the host has a network that NCCL lacks and libfabric serves: EFA, or
// Slingshot (cxi). Never in place of NCCL's own InfiniBand and RoCE, nor of a choice in `user`, the
// environment of the run and of the node. classes: the kernel's folder of devices by class.
// library: Lockstep's plugin, which may be missing.
NcclNetwork choose_nccl_network(const Environment& user, const std::filesystem::path& library,
                                const std::filesystem::path& classes = "/sys/class");
// A container does not see the plugin's folder.
NcclNetwork own_nccl_network_of_container();

// Beside this program, as it is installed or built. Need not exist.
std::filesystem::path nccl_plugin_library();

}  // namespace lockstep::agent

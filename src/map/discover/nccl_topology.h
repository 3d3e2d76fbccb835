// The topology of this machine for NCCL: the XML of NCCL_TOPO_FILE, with NUMA nodes, the PCI
// switches below them, GPUs and NICs. NCCL finds the rest itself (NVLinks, the GPUs' architecture).
// It helps where a container or a virtual machine hides the PCI tree, and shows what NCCL will see.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/result.h"
#include "map/map.h"

namespace lockstep::map {

// to_leaf: the link of this host in the map: what the kernel does not tell of a NIC comes from it.
// root: "/", or a folder that a test made. Code::not_found: the machine has neither a GPU nor a NIC
// on a PCI bus.
Result<std::string> nccl_topology(const LinkSpeed& to_leaf,
                                  const std::filesystem::path& root = "/");

}  // namespace lockstep::map

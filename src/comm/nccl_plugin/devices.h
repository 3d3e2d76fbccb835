// The network devices of this host that a plugin offers to NCCL: one for each NIC of the preferred
// provider.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/os/environment.h"
#include "base/result.h"
#include "comm/fabric/ofi/handles.h"
#include "comm/nccl_plugin/quirks.h"

namespace lockstep::comm::nccl {

struct Device {
  InfoPtr info;
  const Quirks* quirks = nullptr;
  std::string name;      // "rdmap0s6", "eth0"
  std::string provider;  // "efa", "tcp;ofi_rxm"
  std::string pci_path;  // its folder in /sys; empty: a virtual device
  std::uint64_t guid = 0;
  int speed = 0;                  // in Mbit/s
  float latency = 0;              // one way, in microseconds
  bool takes_gpu_memory = false;  // registered by DMA-BUF
  std::size_t message_limit = 0;
};

// LOCKSTEP_FABRIC_PROVIDER (but "tcp"), LOCKSTEP_INTERFACE and LOCKSTEP_ADDRESS choose among them.
// Never empty: without a device the error says what is missing.
Result<std::vector<Device>> find_devices(const Environment& environment);

}  // namespace lockstep::comm::nccl

// The differences between the providers of libfabric, in one table.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace lockstep::comm::nccl {

// A setting of an endpoint. Providers or versions of libfabric that do not know it go without.
struct EndpointOption {
  int name;
  bool value;
};

struct Quirks {
  std::string_view provider;  // as libfabric names it, without its ";ofi_rxm"
  float latency;              // one way, in microseconds: NCCL chooses its algorithms by it
  int speed;                  // in Mbit/s, where the device does not tell
  std::size_t message_limit;  // 0: the provider's own
  bool nccl_has_its_own;      // NCCL's own InfiniBand and RoCE are as good or better
  bool within_host_only;
  bool takes_gpu_memory;  // by DMA-BUF, where its driver and the NIC can
  std::span<const EndpointOption> options;
};

// The quirks of a provider such as "efa" or "tcp;ofi_rxm". Unknown ones get those of Ethernet.
const Quirks& quirks_of(std::string_view provider);
// 0 is the provider that the plugin prefers if a host has several.
int preference(std::string_view provider);

}  // namespace lockstep::comm::nccl

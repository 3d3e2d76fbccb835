// The interface between NCCL and a profiler plugin, versions 5 (NCCL 2.28, 2.29) and 6 (from 2.30),
// declared here from its documentation. NCCL finds a table by its symbol, ncclProfiler_vN. The
// versions differ in events that the plugin does not request. The assertions hold the layout that
// NCCL's binaries expect.
#pragma once

#include <cstddef>
#include <cstdint>

#include "comm/nccl_plugin/interface.h"

namespace lockstep::comm::nccl {

// The types of events are bits, of which init() returns those that the plugin wants.
inline constexpr std::uint64_t kCollectiveEvent = 1 << 1;
inline constexpr std::uint64_t kPeerEvent = 1 << 2;           // a send or a receive
inline constexpr std::uint64_t kKernelChannelEvent = 1 << 6;  // a part of either, on the GPU

struct CollectiveDescription {
  std::uint64_t sequence;  // counted for each function
  const char* function;    // "AllReduce"
  const void* send_buffer;
  void* receive_buffer;
  std::size_t count;
  int root;
  const char* type;  // "ncclFloat32"
  std::uint8_t channels;
  std::uint8_t warps;
  const char* algorithm;
  const char* protocol;
  void* group;
};
static_assert(sizeof(CollectiveDescription) == 88 && offsetof(CollectiveDescription, root) == 40 &&
              offsetof(CollectiveDescription, channels) == 56);

struct PeerDescription {
  const char* function;  // "Send", "Recv"
  void* buffer;
  const char* type;
  std::size_t count;
  int peer;
  std::uint8_t channels;
  void* group;
};
static_assert(sizeof(PeerDescription) == 48 && offsetof(PeerDescription, channels) == 36);

struct EventDescription {
  std::uint64_t type;
  void* parent;  // the plugin's own handle of the parent event
  int rank;
  union {  // NCCL's has more alternatives, and may be longer
    CollectiveDescription collective;
    PeerDescription peer;
  };
};
static_assert(offsetof(EventDescription, parent) == 8 &&
              offsetof(EventDescription, collective) == 24);

struct ProfilerTable {
  const char* name;
  Status (*init)(void** context, std::uint64_t communicator, int* events, const char* name,
                 int hosts, int size, int rank, Logger logger);
  Status (*start)(void* context, void** event, EventDescription* description);
  Status (*stop)(void* event);
  Status (*record_state)(void* event, int state, void* arguments);
  Status (*finalize)(void* context);
};
static_assert(sizeof(ProfilerTable) == 48);

}  // namespace lockstep::comm::nccl

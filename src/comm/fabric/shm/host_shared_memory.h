// HostSharedMemory: the memory that a rank shares with the others of its host.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "comm/fabric/shm/shared_heap.h"
#include "comm/fabric/shm/shared_segment.h"

namespace lockstep::comm {

// On a host with more ranks of a group, its collectives use links.
inline constexpr std::size_t kHostMemoryRanks = 64;

struct HostSharedMemory {
  std::vector<int> ranks;  // ascending, at least two
  SharedSegment segment;
  std::shared_ptr<SharedHeap> own_heap;             // this process's, which all groups use
  std::vector<std::optional<PeerHeap>> peer_heaps;  // by rank; of those of this host
};

}  // namespace lockstep::comm

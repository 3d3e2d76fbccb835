// HostShare: the memory that a rank shares with the others of its host.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "comm/fabric/shm/commons.h"
#include "comm/fabric/shm/heap.h"

namespace lockstep {

struct HostShare {
  std::vector<int> ranks;  // ascending, at least two
  Commons commons;
  std::shared_ptr<Heap> heap;                  // this process's, which all groups use
  std::vector<std::optional<PeerHeap>> heaps;  // by rank; of those of this host
};

}  // namespace lockstep

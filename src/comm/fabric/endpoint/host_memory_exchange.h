// HostMemoryExchange: what two ranks of a host pass to each other over the Unix socket between them
// when they connect: the memory of their link, doorbells and heaps. The lowest rank of the host
// also passes the segment that its ranks share.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/os/fd.h"
#include "base/result.h"
#include "comm/fabric/doorbell.h"
#include "comm/fabric/link.h"
#include "comm/fabric/shm/host_shared_memory.h"
#include "comm/fabric/shm/shared_heap.h"
#include "comm/fabric/shm/shared_segment.h"
#include "comm/fabric/shm/shm_link.h"
#include "net/socket.h"

namespace lockstep::comm {

class HostMemoryExchange {
 public:
  // doorbell: of this rank, for its peers. ranks: of the group.
  HostMemoryExchange(const Doorbell& doorbell, int ranks);

  // A lower rank with this host's id; the lowest comes first.
  void add_lower_peer(int peer);
  // The host has too many ranks to share more than links.
  void share_links_only() { links_only_ = true; }

  // The rank that connects makes the segment of the link. The other one returns the token in it, as
  // a proof that it can read it, or nothing if they share no memory: then the link is null.
  Result<ShmLinkSegment> offer(net::Socket& socket, Deadline deadline);
  Result<std::unique_ptr<Link>> complete(net::Socket& socket, int peer, ShmLinkSegment offered,
                                         Deadline deadline);
  // The other rank. may_share: the host ids are equal.
  Result<std::unique_ptr<Link>> answer(net::Socket& socket, int peer, bool may_share,
                                       Deadline deadline);

  // When all ranks of the host have connected. Nullopt if this rank is alone, or shares links only.
  std::optional<HostSharedMemory> take(const std::vector<int>& ranks);

 private:
  Result<void> send_heap(net::Socket& socket, Deadline deadline);
  Result<void> map_heap(const Fd& memfd, int peer);

  const Doorbell& doorbell_;
  const int ranks_;
  bool links_only_ = false;
  std::optional<int> lowest_peer_;
  std::optional<SharedSegment> segment_;
  std::shared_ptr<SharedHeap> own_heap_;  // as in HostSharedMemory
  std::vector<std::optional<PeerHeap>> peer_heaps_;
};

}  // namespace lockstep::comm

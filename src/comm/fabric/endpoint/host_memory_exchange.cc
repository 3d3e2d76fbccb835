#include "comm/fabric/endpoint/host_memory_exchange.h"

#include <cstddef>
#include <utility>

#include "comm/rendezvous/frame.h"
#include "net/crypto.h"

namespace lockstep::comm {

HostMemoryExchange::HostMemoryExchange(const Doorbell& doorbell, int ranks)
    : doorbell_(doorbell), ranks_(ranks), peer_heaps_(static_cast<std::size_t>(ranks)) {}

void HostMemoryExchange::add_lower_peer(int peer) {
  if (!lowest_peer_) lowest_peer_ = peer;
}

Result<ShmLinkSegment> HostMemoryExchange::offer(net::Socket& socket, Deadline deadline) {
  auto segment = TRY(ShmLinkSegment::create(net::random_hex(16)));
  TRY(socket.send_fd(segment.memfd().get(), deadline));
  TRY(socket.send_fd(doorbell_.fd(), deadline));
  TRY(send_heap(socket, deadline));
  return segment;
}

Result<std::unique_ptr<Link>> HostMemoryExchange::complete(net::Socket& socket, int peer,
                                                           ShmLinkSegment offered,
                                                           Deadline deadline) {
  const auto token = TRY(recv_frame(socket, deadline));
  if (token.empty()) return std::unique_ptr<Link>();
  if (token != offered.token())
    return Error{Code::corrupt, "it reads other memory than was passed to it"};
  Doorbell doorbell(TRY(socket.recv_fd(deadline)));
  TRY(map_heap(TRY(socket.recv_fd(deadline)), peer));
  if (peer == lowest_peer_ && !links_only_)
    segment_ = TRY(SharedSegment::map(TRY(socket.recv_fd(deadline)), ranks_));
  return make_shm_link(std::move(offered), ShmSide::creator, std::move(doorbell));
}

Result<std::unique_ptr<Link>> HostMemoryExchange::answer(net::Socket& socket, int peer,
                                                         bool may_share, Deadline deadline) {
  const auto memfd = TRY(socket.recv_fd(deadline));
  Doorbell doorbell(TRY(socket.recv_fd(deadline)));
  const auto heap = TRY(socket.recv_fd(deadline));
  auto segment = ShmLinkSegment::map(memfd);
  const bool shares = may_share && segment;
  TRY(send_frame(socket, shares ? segment->token() : "", deadline));
  if (!shares) return std::unique_ptr<Link>();
  TRY(socket.send_fd(doorbell_.fd(), deadline));
  TRY(send_heap(socket, deadline));
  TRY(map_heap(heap, peer));
  if (!lowest_peer_ && !links_only_) {
    if (!segment_) segment_ = TRY(SharedSegment::create(ranks_));
    TRY(socket.send_fd(segment_->memfd().get(), deadline));
  }
  return make_shm_link(std::move(*segment), ShmSide::opener, std::move(doorbell));
}

std::optional<HostSharedMemory> HostMemoryExchange::take(const std::vector<int>& ranks) {
  links_only_ = true;  // from now on
  if (!segment_ || ranks.size() < 2) return std::nullopt;
  return HostSharedMemory{ranks, *std::exchange(segment_, std::nullopt), own_heap_,
                          std::move(peer_heaps_)};
}

Result<void> HostMemoryExchange::send_heap(net::Socket& socket, Deadline deadline) {
  if (!own_heap_) own_heap_ = TRY(SharedHeap::for_this_process());
  return socket.send_fd(own_heap_->memfd().get(), deadline);
}

Result<void> HostMemoryExchange::map_heap(const Fd& memfd, int peer) {
  if (links_only_) return {};
  peer_heaps_[static_cast<std::size_t>(peer)] = TRY(PeerHeap::map(memfd));
  return {};
}

}  // namespace lockstep::comm

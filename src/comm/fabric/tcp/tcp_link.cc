#include "comm/fabric/tcp/tcp_link.h"

#include <algorithm>
#include <cerrno>

#include <sys/mman.h>

#include "base/format.h"

namespace lockstep::comm {
namespace {

constexpr std::size_t kLinkBytes = kLinkChannelCount * Stream::kMemoryBytes;

}  // namespace

Result<std::unique_ptr<TcpLink>> TcpLink::create(int peer, ChannelSockets sockets) {
  void* const memory = ::mmap(nullptr, kLinkBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return os_error("reserving memory for a link", errno);
  ::madvise(memory, kLinkBytes, MADV_DONTFORK);
  std::unique_ptr<TcpLink> link(new TcpLink(peer, static_cast<std::byte*>(memory)));
  for (std::size_t channel = 0; channel < kLinkChannelCount; ++channel)
    link->streams_[channel] = std::make_unique<Stream>(
        std::move(sockets[channel]), link->memory_ + channel * Stream::kMemoryBytes);
  return link;
}

TcpLink::~TcpLink() { ::munmap(memory_, kLinkBytes); }

bool TcpLink::is_closed() const {
  return std::ranges::all_of(streams_, [](const auto& stream) { return stream->is_closed(); });
}

bool TcpLink::has_work() const {
  return std::ranges::any_of(streams_, [](const auto& stream) { return stream->has_work(); });
}

Result<void> TcpLink::progress() {
  for (const auto& stream : streams_) {
    if (stream->has_work())
      if (auto moved = stream->progress(); !moved)
        return std::move(moved).error().with_context("what came over a data connection");
    if (!stream->is_closed() || peer_has_left_) continue;
    return Error{Code::peer_lost,
                 stream->close_reason().empty() ? "it was closed there" : stream->close_reason()};
  }
  return {};
}

}  // namespace lockstep::comm

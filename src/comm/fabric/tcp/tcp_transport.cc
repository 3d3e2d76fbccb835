#include "comm/fabric/tcp/tcp_transport.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/check.h"
#include "base/log.h"
#include "comm/rendezvous/frame.h"
#include "comm/rendezvous/handshake.h"

namespace lockstep::comm {
namespace {

// A stranger that connects and sends nothing must not use up the peers' time.
constexpr auto kHandshakeTimeout = std::chrono::seconds(5);
constexpr auto kForever = std::chrono::hours(24);

// Sends small messages at once, and detects a failed host even if nothing is sent. The bound is
// longer than for a control connection: a peer that computes for a long time and does not read is
// no failure.
void tune(const net::Socket& socket, Duration connection_timeout) {
  const auto pause =
      static_cast<int>(std::chrono::ceil<std::chrono::seconds>(connection_timeout).count());
  const auto set = [&](int level, int option, int value) {
    ::setsockopt(socket.fd(), level, option, &value, sizeof value);
  };
  set(SOL_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(SOL_TCP, TCP_KEEPIDLE, 2 * pause);
  set(SOL_TCP, TCP_KEEPINTVL, pause);
  set(SOL_TCP, TCP_KEEPCNT, 3);
}

Result<void> wait_for_client(const net::Listener& listener, const net::Socket& control,
                             const Deadline& deadline) {
  std::array<pollfd, 2> waited{{{listener.fd(), POLLIN, 0}, {control.fd(), POLLIN, 0}}};
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.remaining()).count();
    const int ready =
        ::poll(waited.data(), waited.size(), static_cast<int>(std::clamp<long>(left, 0, 1 << 30)));
    if (ready < 0 && errno != EINTR) return os_error("waiting for a connection", errno);
    if (ready > 0 && waited[0].revents != 0) return {};
    if (ready > 0) return Error{Code::peer_lost, "it gave up before its connections for data came"};
    if (deadline.passed())
      return Error{Code::timeout, "its connections for data did not come in time"};
  }
}

}  // namespace

Result<std::unique_ptr<TcpTransport>> TcpTransport::create(TcpOptions options) {
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return os_error("making an epoll", errno);
  return std::unique_ptr<TcpTransport>(new TcpTransport(std::move(options), std::move(epoll)));
}

Result<std::string> TcpTransport::listen() {
  if (!listener_)
    listener_ = TRY(on_free_port(options_.address, options_.ports, [this](std::uint16_t port) {
      return net::Listener::tcp(options_.address, port);
    }));
  return text(net::HostPort{options_.address, listener_->port()});
}

Result<Link*> TcpTransport::connect(int peer, const std::string& address,
                                    const Deadline& deadline) {
  const auto there = TRY(net::parse_host_port(address));
  ChannelSockets sockets;
  for (std::size_t channel = 0; channel < kLinkChannelCount; ++channel) {
    auto& socket = sockets[channel];
    socket = TRY(net::Socket::connect_tcp(there.host, there.port, deadline));
    TRY(handshake_as_client(socket, options_.secret, purpose(), deadline));
    TRY(send_frame(socket, join_fields({std::to_string(options_.rank), std::to_string(channel)}),
                   deadline));
  }
  return add_link(peer, std::move(sockets));
}

Result<Link*> TcpTransport::accept(int peer, const net::Socket& control, const Deadline& deadline) {
  LS_CHECK(listener_.has_value());
  ChannelSockets sockets;
  while (!std::ranges::all_of(sockets, [](const auto& socket) { return bool{socket}; })) {
    TRY(wait_for_client(*listener_, control, deadline));
    auto socket = TRY(listener_->try_accept());
    if (!socket) continue;
    const auto channel = TRY(accept_channel(*socket, peer, deadline));
    if (channel) sockets[*channel] = std::move(*socket);
  }
  return add_link(peer, std::move(sockets));
}

Result<std::optional<std::size_t>> TcpTransport::accept_channel(net::Socket& socket, int peer,
                                                                const Deadline& deadline) const {
  const auto bound = Deadline::after(std::min<Duration>(kHandshakeTimeout, deadline.remaining()));
  if (auto handshake = handshake_as_server(socket, options_.secret, purpose(), bound); !handshake) {
    LS_LOG(warning, "refused a connection for data: {}", handshake.error().message);
    return std::optional<std::size_t>();
  }
  const auto frame = TRY(recv_frame(socket, deadline));
  for (std::size_t channel = 0; channel < kLinkChannelCount; ++channel)
    if (frame == join_fields({std::to_string(peer), std::to_string(channel)}))
      return std::optional(channel);
  return Error{Code::corrupt, "another rank's connection for data came"};
}

Result<Link*> TcpTransport::add_link(int peer, ChannelSockets sockets) {
  for (const auto& socket : sockets) {
    tune(socket, options_.connection_timeout);
    fork_guard_.add(socket.fd());
  }
  auto link = TRY(TcpLink::create(peer, std::move(sockets)));
  for (std::size_t channel = 0; channel < kLinkChannelCount; ++channel) {
    epoll_event event{};
    event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    event.data.ptr = &link->stream(channel);
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, link->stream(channel).fd(), &event) != 0)
      return os_error("watching a connection", errno);
  }
  const auto index = static_cast<std::size_t>(peer);
  links_by_rank_.resize(std::max(links_by_rank_.size(), index + 1));
  links_by_rank_[index] = link.get();
  links_.push_back(std::move(link));
  return links_.back().get();
}

Result<void> TcpTransport::poll() {
  std::array<epoll_event, 16> events;
  const int ready = ::epoll_wait(epoll_.get(), events.data(), events.size(), 0);
  for (int i = 0; i < ready; ++i) {
    const auto& event = events[static_cast<std::size_t>(i)];
    static_cast<Stream*>(event.data.ptr)->on_epoll_events(event.events);
  }
  for (const auto& link : links_) TRY(progress(*link));
  return {};
}

Result<void> TcpTransport::progress(TcpLink& link) {
  auto moved = link.progress();
  if (!moved) failed_peer_ = link.peer();
  return moved;
}

Result<void> TcpTransport::poll_for(int peer) {
  const auto index = static_cast<std::size_t>(peer);
  auto* const link = index < links_by_rank_.size() ? links_by_rank_[index] : nullptr;
  if (link == nullptr || !link->assume_readable(LinkChannel::collective)) return poll();
  return progress(*link);
}

void TcpTransport::set_peer_left(int peer) {
  for (const auto& link : links_)
    if (link->peer() == peer) link->set_peer_left();
}

bool TcpTransport::is_drained(int peer) const {
  return std::ranges::all_of(
      links_, [&](const auto& link) { return link->peer() != peer || link->is_closed(); });
}

bool TcpTransport::may_sleep() {
  return std::ranges::none_of(links_, [](const auto& link) { return link->has_work(); });
}

Duration TcpTransport::max_sleep() const { return kForever; }

}  // namespace lockstep::comm

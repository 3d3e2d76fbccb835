#include "comm/fabric/tcp/tcp_transport.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/check.h"
#include "comm/rendezvous/frame.h"
#include "comm/rendezvous/handshake.h"

namespace lockstep::comm {
namespace {

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

// The caller has the secret, so the peer that it names is right.
Result<std::size_t> channel_of(net::Socket& socket, int peer, const Deadline& deadline) {
  const auto frame = TRY(recv_frame(socket, deadline));
  for (std::size_t channel = 0; channel < kLinkChannelCount; ++channel)
    if (frame == join_fields({std::to_string(peer), std::to_string(channel)})) return channel;
  return Error{Code::corrupt, "another rank's connection for data came"};
}

}  // namespace

Result<std::unique_ptr<TcpTransport>> TcpTransport::create(TcpOptions options) {
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return os_error("making an epoll", errno);
  return std::unique_ptr<TcpTransport>(new TcpTransport(std::move(options), std::move(epoll)));
}

Result<std::string> TcpTransport::listen() {
  if (!acceptor_) {
    auto listener = TRY(on_free_port(options_.address, options_.ports, [this](std::uint16_t port) {
      return net::Listener::tcp(options_.address, port);
    }));
    std::vector<net::Listener> listeners;
    listeners.push_back(std::move(listener));
    acceptor_ = TRY(Acceptor::create(options_.secret, purpose(), std::move(listeners)));
  }
  return text(net::HostPort{options_.address, acceptor_->listener(0).port()});
}

Result<Link*> TcpTransport::connect(int peer, const std::string& address,
                                    const Deadline& deadline) {
  const auto there = TRY(net::parse_host_port(address));
  ChannelSockets sockets;
  for (std::size_t channel = 0; channel < kLinkChannelCount; ++channel) {
    const auto name = join_fields({std::to_string(options_.rank), std::to_string(channel)});
    sockets[channel] = TRY(
        connect_proven([&] { return net::Socket::connect_tcp(there.host, there.port, deadline); },
                       options_.secret, purpose(), deadline,
                       [&](net::Socket& socket) { return send_frame(socket, name, deadline); }));
  }
  return add_link(peer, std::move(sockets));
}

Result<Link*> TcpTransport::accept(int peer, const net::Socket& control, const Deadline& deadline) {
  LS_CHECK(acceptor_.has_value());
  ChannelSockets sockets;
  while (!std::ranges::all_of(sockets, [](const auto& socket) { return bool{socket}; })) {
    auto socket = TRY(accept_proven(control, deadline));
    const auto channel = TRY(channel_of(socket, peer, deadline));
    sockets[channel] = std::move(socket);
  }
  return add_link(peer, std::move(sockets));
}

Result<net::Socket> TcpTransport::accept_proven(const net::Socket& control,
                                                const Deadline& deadline) {
  const std::array<int, 2> waited{acceptor_->fd(), control.fd()};
  for (;;) {
    if (auto caller = TRY(acceptor_->next())) return std::move(caller->socket);
    const auto ready = TRY(net::wait_readable(waited, deadline));
    if (!ready) return Error{Code::timeout, "its connections for data did not come in time"};
    if (*ready == 1)
      return Error{Code::peer_lost, "it gave up before its connections for data came"};
  }
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

// TcpTransport: links to other hosts over Lockstep's own TCP connections, two to each peer. Each
// channel has its own, so a channel whose reader is behind does not block the other. Decision 27
// has the reason not to use libfabric's provider for TCP.
//
// How a pair connects. The callee listens (only while its group connects) and sends its address to
// the caller. The caller connects once for each channel, proves the group's secret and names the
// channel. All connections are in one epoll, edge-triggered, so a poll without events is one system
// call. A thread that waits for one peer reads that peer's connection instead: a read without data
// is as cheap, and a read with data has it at once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/os/fd.h"
#include "base/os/fork_guard.h"
#include "comm/fabric/address/port_range.h"
#include "comm/fabric/tcp/tcp_link.h"
#include "comm/fabric/transport.h"
#include "comm/rendezvous/acceptor.h"
#include "net/connection_timeout.h"
#include "net/crypto.h"
#include "net/socket.h"

namespace lockstep::comm {

struct TcpOptions {
  std::string address;  // of this rank
  PortRange ports;
  int rank = 0;
  net::Secret secret;
  std::string group;
  Duration connection_timeout = net::kConnectionTimeout;  // as in NetworkOptions
};

class TcpTransport : public Transport {
 public:
  static Result<std::unique_ptr<TcpTransport>> create(TcpOptions options);

  // Listens from now on. Returns "host:port" for a peer's connect().
  Result<std::string> listen();
  // No more peers connect.
  void stop_listening() { acceptor_.reset(); }
  // The transport owns links. connect(): to a peer that has sent its listening address.
  Result<Link*> connect(int peer, const std::string& peer_address, const Deadline& deadline);
  // accept(): from the peer that connects now. `control` is readable when it has given up.
  Result<Link*> accept(int peer, const net::Socket& control, const Deadline& deadline);

  Result<void> poll() override;
  Result<void> poll_for(int peer) override;
  int failed_peer() const override { return failed_peer_; }
  void set_peer_left(int peer) override;
  bool is_drained(int peer) const override;
  int wait_fd() const override { return epoll_.get(); }
  bool may_sleep() override;
  Duration max_sleep() const override;

 private:
  TcpTransport(TcpOptions options, Fd epoll)
      : options_(std::move(options)), epoll_(std::move(epoll)) {}
  std::string purpose() const { return options_.group + " data"; }
  // Waits for the next connection with the secret. `control` is readable when the peer has given
  // up.
  Result<net::Socket> accept_proven(const net::Socket& control, const Deadline& deadline);
  Result<Link*> add_link(int peer, ChannelSockets sockets);
  Result<void> progress(TcpLink& link);

  const TcpOptions options_;
  const Fd epoll_;
  std::optional<Acceptor> acceptor_;
  std::vector<std::unique_ptr<TcpLink>> links_;
  // by rank; null, or beyond the end, for ranks without a link
  std::vector<TcpLink*> links_by_rank_;
  int failed_peer_ = -1;
  ForkGuard fork_guard_;  // last: drops the descriptors before they are closed
};

}  // namespace lockstep::comm

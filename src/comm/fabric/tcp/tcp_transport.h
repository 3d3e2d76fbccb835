// TcpTransport: links to other hosts over TCP connections of our own, two to each peer: one for
// each lane, so that a lane whose reader is behind does not hold up the other. Decision 27 has why
// not libfabric's provider for TCP.
//
// How a pair meets: the callee listens (only while its group meets) and tells the caller where; the
// caller connects once for each lane, proves the group's secret and says which lane it is. All
// connections are in one epoll, edge-triggered, so a poll without news is one system call. Who
// waits for one peer asks that peer's connection itself instead: the call that finds no news is as
// cheap, and the one that finds some has it at once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/fork_guard.h"
#include "comm/fabric/address/port_range.h"
#include "comm/fabric/tcp/tcp_link.h"
#include "comm/fabric/transport.h"
#include "net/crypto.h"
#include "net/silence.h"
#include "net/socket.h"

namespace lockstep {

struct TcpOptions {
  std::string address;  // of this rank
  PortRange ports;
  int rank = 0;
  Secret secret;
  std::string group;
  Duration silence = kSilenceBound;  // as in NetworkOptions
};

class TcpTransport : public Transport {
 public:
  static Result<std::unique_ptr<TcpTransport>> create(TcpOptions options);

  // "host:port" for a peer's call(); listens from then on.
  Result<std::string> listen();
  // Nobody calls any more.
  void stop_listening() { listener_.reset(); }
  // Links are the transport's. call(): to a peer that has told where it listens.
  Result<Link*> call(int peer, const std::string& place, const Deadline& deadline);
  // admit(): to the peer that calls now. `lifeline` is readable when it has given up.
  Result<Link*> admit(int peer, const Socket& lifeline, const Deadline& deadline);

  Result<void> poll() override;
  Result<void> poll_for(int peer) override;
  int failed_peer() const override { return failed_peer_; }
  void forget(int peer) override;
  bool is_drained(int peer) const override;
  int wait_fd() const override { return epoll_.get(); }
  bool may_sleep() override;
  Duration nap_max() const override;

 private:
  TcpTransport(TcpOptions options, Fd epoll)
      : options_(std::move(options)), epoll_(std::move(epoll)) {}
  std::string purpose() const { return options_.group + " data"; }
  // The lane that this connection is for; nothing when it is a stranger's.
  Result<std::optional<std::size_t>> admit_lane(Socket& socket, int peer,
                                                const Deadline& deadline) const;
  Result<Link*> keep(int peer, LaneSockets sockets);
  Result<void> progress(TcpLink& link);

  const TcpOptions options_;
  const Fd epoll_;
  std::optional<Listener> listener_;
  std::vector<std::unique_ptr<TcpLink>> links_;
  std::vector<TcpLink*> link_of_;  // by rank; null, or nothing at the end, for who has none
  int failed_peer_ = -1;
  ForkGuard fork_guard_;  // last: forgets the descriptors before they are closed
};

}  // namespace lockstep

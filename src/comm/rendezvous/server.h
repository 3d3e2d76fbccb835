// RendezvousServer: the rendezvous over TCP, in its own thread. Node 0's agent has one for each
// attempt. It accepts only clients that prove the attempt's secret (handshake.h).
//
// It also forwards: a client may request a connection to one port of this host's loopback, where
// torch's store listens, which has no authentication (port_forwarder.h). While nothing listens
// there yet, the client waits.
//
// Bounded: connections, entries and the bytes of each; a request above a bound is refused with
// `exhausted`. Callers that prove nothing have few connections, for a short time (acceptor.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "base/units.h"
#include "net/connection_timeout.h"
#include "net/crypto.h"

namespace lockstep::comm {

struct RendezvousLimits {
  std::size_t connections = 32768;  // with the secret; a rank has one or two
  std::size_t entries = 1 << 20;
  Bytes entry = 64_KiB;  // key and value together
  Duration connection_timeout =
      net::kConnectionTimeout;  // of a client's host; after it the client counts as gone
};

class RendezvousServer {
 public:
  // port 0: a free one. forward_to: the port on loopback; 0: nothing is forwarded.
  static Result<std::unique_ptr<RendezvousServer>> start(const std::string& host,
                                                         std::uint16_t port, net::Secret secret,
                                                         RendezvousLimits limits = {},
                                                         std::uint16_t forward_to = 0);
  ~RendezvousServer();  // ends the thread and all connections

  std::uint16_t port() const;
  // Waits until so many clients have proven the secret and left again; false at the deadline.
  bool wait_until_left(std::size_t clients, Deadline deadline);

 private:
  class Impl;
  explicit RendezvousServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::comm

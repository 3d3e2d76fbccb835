// PortForwarder: forwards connections from this host to torch's store on another one.
//
// Torch's TCPStore has no authentication. So it listens only on the loopback of rank 0's host, and
// node 0's rendezvous server forwards to it (server.h). On each other host a PortForwarder listens
// on loopback. For each connection it opens one to the rendezvous server, which proves the secret.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "net/connection_timeout.h"
#include "net/crypto.h"

namespace lockstep::comm {

class PortForwarder {
 public:
  // Listens at 127.0.0.1 on a free port, in its own thread. rendezvous: "host:port". A client whose
  // connection cannot be made there is closed, and the log has the reason. connection_timeout: the
  // connection timeout of the rendezvous host.
  static Result<std::unique_ptr<PortForwarder>> start(
      std::string rendezvous, net::Secret secret,
      Duration connection_timeout = net::kConnectionTimeout);
  ~PortForwarder();  // ends the thread and all connections

  std::uint16_t port() const;

 private:
  class Impl;
  explicit PortForwarder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::comm

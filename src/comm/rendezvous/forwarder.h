// Forwarder: the way from this host to torch's store on another one.
//
// Torch's TCPStore takes no secret. So it listens on the loopback of rank 0's host alone, and node
// 0's meeting place forwards to it (server.h). On each other host a Forwarder listens on loopback
// and gives each connection one of its own to the meeting place, which proves the secret.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "net/crypto.h"
#include "net/silence.h"

namespace lockstep {

class Forwarder {
 public:
  // Listens at 127.0.0.1 on a free port, in a thread of its own. rendezvous: "host:port". A caller
  // whose connection cannot be made there is closed, and the log says why. silence: of the meeting
  // place's host, after which a connection is lost.
  static Result<std::unique_ptr<Forwarder>> start(std::string rendezvous, Secret secret,
                                                  Duration silence = kSilenceBound);
  ~Forwarder();  // ends the thread and all connections

  std::uint16_t port() const;

 private:
  class Impl;
  explicit Forwarder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep

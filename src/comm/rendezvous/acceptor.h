// Acceptor: accepts the connections of callers that prove a secret (handshake.h).
//
// Any program may connect to a port. So a caller without a proof costs little: few of them are open
// at once, each for a second at most, and one that is silent gives way when others wait. Callers
// prove the secret side by side, and next() returns them in the order of their proofs. Nothing
// blocks.
#pragma once

#include <cstddef>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/os/fd.h"
#include "base/result.h"
#include "comm/rendezvous/frame.h"
#include "comm/rendezvous/handshake.h"
#include "net/crypto.h"
#include "net/socket.h"

namespace lockstep::comm {

class Acceptor {
 public:
  // unproven: the number of callers without a proof at once.
  static Result<Acceptor> create(net::Secret secret, std::string purpose,
                                 std::vector<net::Listener> listeners, std::size_t unproven = 8);

  struct Caller {
    net::Socket socket;
    std::size_t listener;  // its index
  };
  // The next caller that has proved the secret. Nullopt if there is none yet: call it again when
  // fd() is readable.
  Result<std::optional<Caller>> next();
  int fd() const { return epoll_.get(); }
  const net::Listener& listener(std::size_t index) const { return listeners_[index]; }

 private:
  struct Unproven {
    Caller caller;
    ServerHandshake handshake;
    FrameReader reader;
    Deadline turn;  // until then it keeps its place, also when others wait
    Deadline end;
    bool challenged = false;
  };
  Acceptor(net::Secret secret, std::string purpose, std::vector<net::Listener> listeners,
           std::size_t unproven, Fd epoll, Fd timer);
  Result<std::optional<Caller>> take_proven();
  // True when the caller has proved the secret.
  static Result<bool> advance(Unproven& one);
  Result<bool> accept_callers();
  bool make_room();
  Result<void> watch(int fd, bool arrivals, int how) const;
  void unwatch(const Unproven& one) const;
  Result<void> prepare_wait();

  net::Secret secret_;
  std::string purpose_;
  std::vector<net::Listener> listeners_;
  std::size_t unproven_limit_;
  Fd epoll_;  // the listeners while there is room, the unproven callers, and the timer
  Fd timer_;
  std::list<Unproven> unproven_;  // the oldest first
};

}  // namespace lockstep::comm

// Relay: two sockets, each of which gets what the other one sends. For a poll loop: it never waits
// and holds at most 64 KiB for each side.
#pragma once

#include <string>
#include <vector>

#include <poll.h>

#include "net/socket.h"

namespace lockstep {

struct Relay {
  Socket near, far;
  std::string to_near, to_far;  // what is not sent yet

  // Adds what to poll for before the next carry().
  void watch(std::vector<pollfd>& fds) const;
  // Sends what is held for the near side, while there is no far one. False as of carry().
  bool send_near();
  // Moves what can be moved now. False once a side has closed or failed.
  bool carry();
};

}  // namespace lockstep

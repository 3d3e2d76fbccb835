// Relay: two sockets, each of which receives the data that the other one sends. For a poll loop: it
// never waits and buffers at most 64 KiB for each side.
#pragma once

#include <string>
#include <vector>

#include <poll.h>

#include "net/socket.h"

namespace lockstep::comm {

struct Relay {
  net::Socket near, far;
  std::string to_near, to_far;  // what is not sent yet

  // Adds the events to poll for before the next forward().
  void add_poll_fds(std::vector<pollfd>& fds) const;
  // Sends the data buffered for the near side, while there is no far one. False as for forward().
  bool send_near();
  // Moves all data that can be moved now. False once a side has closed or failed.
  bool forward();
};

}  // namespace lockstep::comm

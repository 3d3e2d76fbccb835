// Transport: what carries the links of a rank to other hosts. Two implementations: tcp/
// (connections of our own) and ofi/ (libfabric). For one thread at a time.
#pragma once

#include "base/result.h"
#include "base/units.h"

namespace lockstep {

class Transport {
 public:
  virtual ~Transport() = default;

  // Takes what has come and sends what was waiting. Often, or when wait_fd() says so. `peer_lost`
  // with the reason when the connection to a peer, failed_peer(), failed.
  virtual Result<void> poll() = 0;
  // The same for who waits for a peer's next message for a collective, which may come at any
  // moment: looks there only, where that is cheaper. Not instead of poll(), which others need.
  virtual Result<void> poll_for(int /*peer*/) { return poll(); }
  // Of the last `peer_lost`; -1: unknown.
  virtual int failed_peer() const = 0;
  // The peer has left in order: nothing is sent to it any more, and its errors are none.
  virtual void forget(int peer) = 0;
  // Nothing more will come from a peer that has left.
  virtual bool is_drained(int peer) const = 0;

  // Readable when poll() has something to do, if may_sleep() said yes before.
  virtual int wait_fd() const = 0;
  virtual bool may_sleep() = 0;
  // How long a sleep may last, because there may be work that wait_fd() does not show.
  virtual Duration nap_max() const = 0;
};

}  // namespace lockstep

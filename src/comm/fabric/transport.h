// Transport: provides the links of a rank to other hosts. Two implementations: tcp/ (Lockstep's own
// connections) and ofi/ (libfabric). For one thread at a time.
#pragma once

#include "base/result.h"
#include "base/units.h"

namespace lockstep::comm {

class Transport {
 public:
  virtual ~Transport() = default;

  // Receives what has arrived and sends what was waiting. Call it often, or when wait_fd() is
  // readable. `peer_lost` with the reason when the connection to a peer, failed_peer(), failed.
  virtual Result<void> poll() = 0;
  // The same for a thread that waits for a peer's next collective message, which may arrive at any
  // moment: polls only that peer, where that is cheaper. It does not replace poll(), which other
  // peers need.
  virtual Result<void> poll_for(int /*peer*/) { return poll(); }
  // The peer of the last `peer_lost`; -1: unknown.
  virtual int failed_peer() const = 0;
  // The peer has left in order: nothing is sent to it any more, and its errors are ignored.
  virtual void set_peer_left(int peer) = 0;
  // No more data will arrive from a peer that has left.
  virtual bool is_drained(int peer) const = 0;

  // Readable when poll() has work, if may_sleep() returned true before.
  virtual int wait_fd() const = 0;
  virtual bool may_sleep() = 0;
  // The maximum sleep, because there may be work that wait_fd() does not show.
  virtual Duration max_sleep() const = 0;
};

}  // namespace lockstep::comm

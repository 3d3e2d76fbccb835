// DeathNotices: tells an attempt's meeting place that a rank was killed. A rank that had joined its
// crew has left a will there (comm/rendezvous/crew.h); for one that was killed before, its agent
// says so, or the others would wait for it as long as for a slow one.
#pragma once

#include <string>
#include <thread>
#include <vector>

#include "net/crypto.h"

namespace lockstep {

class DeathNotices {
 public:
  // Returns at once: the place may be on a host that does not answer. What fails is logged.
  void send(const std::string& rendezvous, const Secret& secret, int rank);

 private:
  std::vector<std::jthread> senders_;  // each ends within its bound; the destructor waits for them
};

}  // namespace lockstep

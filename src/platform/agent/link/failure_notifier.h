// FailureNotifier: reports to an attempt's rendezvous that a rank was killed. A rank that had
// joined its membership has left its failure notice there (comm/rendezvous/membership.h). For a
// rank that was killed earlier the agent sends it; otherwise the others would wait for it as for a
// slow one.
#pragma once

#include <string>
#include <thread>
#include <vector>

#include "net/crypto.h"

namespace lockstep::agent {

class FailureNotifier {
 public:
  // Returns at once: the rendezvous may be on a host that does not answer. Errors are logged.
  void send(const std::string& rendezvous, const net::Secret& secret, int rank);

 private:
  std::vector<std::jthread> senders_;  // each ends within a bound; the destructor waits for them
};

}  // namespace lockstep::agent

// MeetingExchange: by which rank 0 tells the ranks of its launcher where they meet, and the secret
// of their group (docs/design/launchers.md). The launcher's key-value space if it has one, else a
// file that only the user can read, in a folder that all hosts share.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/os/environment.h"
#include "base/result.h"
#include "comm/collective/start/launched_rank.h"
#include "comm/collective/start/pmi_client.h"
#include "comm/fabric/address/network_options.h"
#include "net/crypto.h"

namespace lockstep::comm {

struct MeetingPlace {
  std::string address;  // host:port
  net::Secret secret;
};

// The address of rank 0's host at which the others reach it.
Result<std::string> meeting_address(const LaunchedRank& launch, const NetworkOptions& network);

class MeetingExchange {
 public:
  // Each rank opens its exchanges in the same order: the process counts them.
  static Result<MeetingExchange> open(const Environment& environment, const LaunchedRank& launch,
                                      Deadline deadline);

  // On rank 0. By a key-value space, it waits until the others are here.
  Result<void> publish(const MeetingPlace& place, Deadline deadline);
  // On the others: waits for rank 0. Collective with a key-value space, as publish() is.
  Result<MeetingPlace> receive(Deadline deadline);
  // On rank 0, when all have received it.
  void remove();

 private:
  std::string key_;
  std::shared_ptr<PmiClient> pmi_;
  std::filesystem::path file_;  // without `pmi_`
  int rank_ = 0;
};

}  // namespace lockstep::comm

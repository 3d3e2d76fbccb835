// FailureConsensus: how the ranks of a group that fails agree on one error text. On a time-out,
// calls that do not match or a lost peer, each rank sends all others the error that it met and its
// position (a summary of its flight record). A rank that receives such a report fails as well, and
// sends its own. The lowest rank that has reported compares the records and sends all ranks the
// failure reason, which becomes the error of every call on every rank. Where connections are cut,
// each rank also forwards the failure reason.
//
// It takes at most a second. A rank that does not report in time is assumed to be stopped, and is
// named. Where no failure reason arrives, a rank finds its own. Only in that case may two ranks
// report different reasons.
//
// In a large group ranks are not connected to all others (docs/design/large-groups.md). A rank
// sends its failure to its neighbours, which fail and do the same. Reports go to the lowest three
// ranks alone, and each rank passes the failure reason on.
//
// The rank at fault: after a lost connection, the first rank that any rank lost. A rank that no
// other rank answers is disconnected, and names itself. On a time-out it is the rank that does not
// answer, else the late one.
//
// For the thread that holds the progress mutex.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "comm/fabric/endpoint/endpoint.h"
#include "comm/flight/diagnosis/group.h"
#include "comm/flight/recorder.h"

namespace lockstep::comm {

class FailureConsensus {
 public:
  FailureConsensus(Endpoint& endpoint, const FlightRecorder& recorder)
      : endpoint_(endpoint), recorder_(recorder) {}

  // Returns the failure reason that all ranks report, given this rank's cause. Its code is that of
  // the cause.
  FailureReason agree_on_reason(const Error& cause);

 private:
  bool has_report(int rank) const;
  bool all_reported() const;
  // The lowest rank that has reported and is still connected, or this one. A rank that receives no
  // reports assumes that the deciding ranks have them.
  int deciding_rank() const;
  void wait_for_reason();
  FailureReason decide_reason(const Error& cause) const;
  FailureReason reason_for_loss(const Error& cause) const;
  bool is_cut_off() const;
  void blame_disconnected_peer(FailureReason& end) const;
  bool answers(int global_rank) const;
  FlightGroup failure_reports() const;
  // Ranks of the group that have not left and do not answer.
  std::vector<int> unresponsive_ranks() const;
  // "rank 1 (host a, pid 7) does not answer: it is stopped, hung or cut off"
  std::string describe_all_ranks(const FlightGroup& group) const;

  Endpoint& endpoint_;
  const FlightRecorder& recorder_;
  std::string own_report_;  // failure report
};

}  // namespace lockstep::comm

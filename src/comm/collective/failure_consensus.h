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
// sends its failure to its neighbours, which fail and do the same. Three ranks may decide, one
// after the other; they alone receive reports, and none after a lost connection, which explains
// itself. Each rank passes the failure reason on.
//
// The rank at fault: after a lost connection, the first rank that any rank lost. A rank that no
// other rank answers is disconnected, and names itself. On a time-out it is the rank that does not
// answer, else the late one.
//
// For the thread that holds the progress mutex.
#pragma once

#include <functional>
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
  // Both return when there is a failure reason, or this rank has to find it.
  void await_reason_by_reports(const Error& cause);
  void await_reason_of_loss();
  bool has_report(int rank) const;
  bool all_reported() const;
  // In a small group, the lowest rank that has reported and is still connected, or this one.
  int deciding_rank() const;
  void wait_for_deciding_rank();
  // In a large group. awaits: false for those that will not decide.
  void wait_for_deciding_ranks(const std::function<bool(int)>& awaits);
  bool has_reason() const { return endpoint_.failure_reason().has_value(); }
  // In a large group, where the cause of this rank may be another one.
  bool is_loss_known() const { return !endpoint_.is_full_mesh() && endpoint_.connection_loss(); }
  FailureReason decide_reason(const Error& cause) const;
  FailureReason reason_for_loss() const;
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

// Inquest: how the ranks of a group that fails come to one sentence about it. On a time-out, calls
// that do not match or a lost peer, each rank tells all others what befell it and where it was (its
// flight record in brief); a rank that hears of it fails as well, and tells in turn. The lowest
// rank that was heard sets the records side by side and tells all the verdict, which becomes the
// error of every call on every rank. Where connections are cut, each rank also passes the verdict
// on.
//
// A second bounds it: a rank that says nothing in time is taken for stopped, and named; where no
// verdict comes, a rank finds its own. Then, and only then, two ranks may say different things.
//
// The rank at fault: after a lost connection the first one that any rank lost. A rank that no other
// one answers is cut off, and names itself. At a time-out it is the rank that does not answer, else
// the one that is late.
//
// For the driver.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "comm/fabric/endpoint/endpoint.h"
#include "comm/flight/recorder.h"
#include "comm/flight/verdict/group.h"

namespace lockstep {

class Inquest {
 public:
  Inquest(Endpoint& endpoint, const FlightRecorder& recorder)
      : endpoint_(endpoint), recorder_(recorder) {}

  // Of what this rank met, the end that all ranks give. Its code is that of the cause.
  GroupEnd hold(const Error& cause);

 private:
  bool is_heard(int rank) const;
  bool all_heard() const;
  // The lowest rank that was heard and is not gone, or this one.
  int judge() const;
  void await_verdict();
  GroupEnd verdict(const Error& cause) const;
  GroupEnd verdict_on_loss(const Error& cause) const;
  bool is_cut_off() const;
  void blame_the_lost(GroupEnd& end) const;
  FlightGroup records() const;
  // Ranks of the group that neither left nor answer.
  std::vector<int> silent() const;
  // "rank 1 (host a, pid 7) does not answer: it is stopped, hung or cut off"
  std::string where_all_are(const FlightGroup& group) const;

  Endpoint& endpoint_;
  const FlightRecorder& recorder_;
  std::string own_;  // testimony
};

}  // namespace lockstep

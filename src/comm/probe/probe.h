// probe(): measures the constants of communication, by the ranks of a run, or by two threads of
// this process for the constants within one host.
#pragma once

#include "base/result.h"
#include "comm/collective/start/join.h"
#include "comm/probe/measure.h"
#include "map/map.h"

namespace lockstep::comm {

struct ProbeResult {
  map::Measured measured;  // constants that could not be measured are empty
  int hosts = 1;
  int ranks = 2;
};

// All ranks that joined call it; the result is the same on all. Between hosts the first ranks of
// all hosts measure in pairs, at the same time, in up to four rounds with different pairs, and the
// slowest path counts. Then the first ranks of up to four hosts measure at once, for the overhead.
// Within a host, two ranks of the first host that has them measure.
Result<ProbeResult> probe(const JoinedWorld& joined, const ProbeProgress& progress);

// Two threads that share memory as two processes of a host do.
Result<ProbeResult> probe_this_host(const ProbeProgress& progress);

}  // namespace lockstep::comm

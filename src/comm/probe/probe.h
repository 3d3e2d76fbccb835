// probe(): the constants of communication, measured by the ranks of a run, or
// by two threads of this process for what one host alone can tell.
#pragma once

#include "base/result.h"
#include "comm/probe/measure.h"
#include "comm/start/join.h"
#include "map/map.h"

namespace lockstep {

struct Probed {
  Measured measured;  // what could not be measured is empty
  int hosts = 1;
  int ranks = 2;
};

// Called by all ranks that joined; the result is the same on all. Between hosts
// the first ranks of all of them measure in pairs, at the same time, in up to
// four rounds of other pairs, and the slowest way counts; then those of up to
// four hosts all at once, for the overhead. Within a host, two
// ranks of the first host that has them.
Result<Probed> probe(const Joined& joined, const ProbeProgress& progress);

// Two threads that share memory as two processes of a host do.
Result<Probed> probe_alone(const ProbeProgress& progress);

}  // namespace lockstep

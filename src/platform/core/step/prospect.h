// Prospect: what would become of a run if it were submitted now.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "platform/core/model/event.h"
#include "platform/core/model/state.h"
#include "platform/core/sched/plan.h"

namespace lockstep {

// A run that would have to leave its devices for it.
struct Displaced {
  RunId run;
  Cause cause = Cause::none;  // moved, paused or evicted
  std::string from;           // its host; the first of several
  std::vector<Slice> to;      // if it is moved
};

struct Prospect {
  std::vector<Slice> slices;         // where it would start at once; empty: it would wait
  std::string reason;                // why it would wait
  std::optional<RunId> blocker;      // for whom
  StartTimes starts;                 // when it would start
  std::size_t ahead = 0;             // how many would stand before it
  std::vector<Displaced> displaced;  // who would be asked to leave at once
};

// By step() itself, of which nothing is kept. Refused as the submission would be.
Result<Prospect> prospect_of(const State& state, const SubmitRun& wish, Time now);

}  // namespace lockstep

// Placing: a run gets devices, or has to leave them for another.
#pragma once

#include <string>

#include "platform/core/sched/plan.h"
#include "platform/core/step/draft.h"

namespace lockstep {

// The run, which has no live attempt, begins its next one there.
void start_attempt(Draft& draft, Placement placement);

// Whether a run may go there, and somewhere: the map has the devices and no host is closed.
bool takes_runs(const Draft& draft, const std::vector<Slice>& slices);

// What a run that has devices is to do: to go elsewhere, or, where `to` is empty, to wait again.
struct Leave {
  RunId run;
  std::vector<Slice> to{};
  std::optional<RunId> room_for{};  // none: its host is drained
};
// Its attempt begins to drain; the run knows why, and so does whoever asks for its events.
void ask_to_leave(Draft& draft, const Leave& leave);

}  // namespace lockstep

// step(): the whole decision of the platform, as one pure function. Given the state, one event and
// the time it says which rows change and what is to be done in the world, or why it refuses the
// event (a bad spec, an unknown run, a malformed report). It has no clock, thread, socket or file;
// a list of events and times replays every decision.
//
// A run's way (states in core/model, the rules in docs/design/platform.md):
//   queued > starting > running > succeeded | failed | timed_out | cancelled
//      ^________________|  a lost rank or node, or a retry
// and that of its attempt:
//   reserved > launching > running > draining > ended
#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "platform/core/model/event.h"
#include "platform/core/model/state.h"
#include "platform/core/step/queue.h"

namespace lockstep {

struct Outcome {
  std::vector<Change> changes;  // each row at most once: runs, attempts, nodes, hosts, limits,
                                // store, orphans, clock
  std::vector<Effect> effects;  // to be carried out once the changes are durable
};

// The queue was told of all changes so far, or forgot them; from here on it counts on these.
Result<Outcome> step(Queue& queue, const State& state, const Event& event, Time now);
// Several of one moment, decided as one: a refusal is that of all.
Result<Outcome> step(Queue& queue, const State& state, std::span<const Event> events, Time now);
// From nothing: the same.
Result<Outcome> step(const State& state, const Event& event, Time now);

}  // namespace lockstep

// step(): all decisions of the platform, as one pure function. From the state, one event and the
// time it computes the changed rows and the effects, or why it refuses the event (a bad spec, an
// unknown run, a malformed report). It uses no clock, thread, socket or file. A list of events and
// times replays every decision.
//
// States of a run (see core/model; the rules are in docs/design/attempts.md):
//   queued > starting > running > succeeded | failed | timed_out | cancelled
//      ^________________|  a lost rank or node, or a retry
// States of its attempt:
//   reserved > launching > running > draining > ended
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "platform/core/model/event.h"
#include "platform/core/model/state.h"
#include "platform/core/step/starting/incremental_scheduler.h"

namespace lockstep::step {

struct Outcome {
  std::vector<model::Change> changes;  // each row at most once: runs, attempts, nodes, hosts,
                                       // limits, store, orphans, given-up nodes, clock
  std::vector<model::Effect> effects;  // to be carried out once the changes are durable
  // The run of the last SubmitRun: the new one, or the earlier one of the same request id.
  std::optional<model::RunId> submitted{};
  std::optional<model::NodeId> attached{};  // the node of the last AttachNode
};

// For Decider (decider.h): the scheduler must have seen all changes so far, or been reset;
// afterwards it includes the new ones.
Result<Outcome> step(IncrementalScheduler& scheduler, const model::State& state,
                     const model::Event& event, Time now);
// Several events at one time, decided as one: one refusal refuses all.
Result<Outcome> step(IncrementalScheduler& scheduler, const model::State& state,
                     std::span<const model::Event> events, Time now);
// The same result, with an empty scheduler.
Result<Outcome> step(const model::State& state, const model::Event& event, Time now);

}  // namespace lockstep::step

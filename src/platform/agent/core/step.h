// step(): all decisions of an agent, as one pure function. From the state, one event and the time
// it computes the next state and the effects. It uses no clock, log, thread, socket or file.
//
//   preparing > waiting > running > stopping > cleaning_up > ended
//
// The shell carries out the effects in order. An effect that has an answer yields an event; the
// shell steps it, and carries out its effects, before the next effect of the list.
// docs/design/agent.md lists states, events and effects.
#pragma once

#include "base/units.h"
#include "platform/agent/core/agent_state.h"
#include "platform/agent/core/event.h"

namespace lockstep::agent {

// now: on a clock that does not jump.
Effects step(AgentState& state, const Event& event, Duration now);

}  // namespace lockstep::agent

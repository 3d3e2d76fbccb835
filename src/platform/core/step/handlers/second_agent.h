// A second agent of a node: an engine or a scheduler started the node's agent again, on the same or
// another machine, while the first may be alive. The first that called is the node's agent.
#pragma once

#include "platform/core/step/handlers/draft.h"

namespace lockstep::step {

// Adds it to those that have called.
model::AgentIncarnation& add_agent(model::Node& node, const model::AgentIncarnation& agent);

// Records in the node and in its run's events that another agent than the node's has called. Its
// report counts for nothing, and its command is `leave`.
void refuse_second_agent(Draft& draft, const model::NodeReport& report);

}  // namespace lockstep::step

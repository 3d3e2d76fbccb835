// Runs that hold devices and do not use them: warned, then ended, by the policy of their project.
// docs/design/idle-runs.md has the rules.
#pragma once

#include <optional>

#include "platform/core/step/handlers/draft.h"

namespace lockstep::step {

// Since when no node of the attempt has used its devices; none: some node does, or its agent does
// not say.
std::optional<Time> idle_since(const Draft& draft, const model::AttemptId& attempt);

// The policy for the attempt, by its project, its class and its devices.
struct IdlePolicy {
  Duration limit{};    // of the idle time
  bool stops = false;  // else the run is only warned
};
IdlePolicy idle_policy_of(const Draft& draft, const model::AttemptId& attempt);

// At a tick, if all nodes of the running attempt were heard a moment ago: warns it at three
// quarters of its limit, and ends it at the limit.
void check_idle(Draft& draft, const model::AttemptId& attempt);

}  // namespace lockstep::step

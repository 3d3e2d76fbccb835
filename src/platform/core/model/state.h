// The controller's whole state, and the rows by which it changes.
#pragma once

#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "map/map.h"
#include "platform/core/model/attempt.h"
#include "platform/core/model/operation.h"
#include "platform/core/model/run.h"

namespace lockstep {

// A row as it is after the change; the store writes it, apply() puts it into a State.
using Change = std::variant<Run, Attempt, Node, HostRow, LimitRow>;

// Ordered containers throughout: decisions must not depend on hashing.
struct State {
  Map map;
  std::map<RunId, Run> runs;
  std::map<AttemptId, Attempt> attempts;
  std::map<NodeId, Node> nodes;
  std::map<std::string, HostRow> hosts;  // those that something was ever set for
  std::map<LimitId, LimitRow> limits;
  // Kept by apply():
  std::set<RunId> open;                   // runs that are not final: all that a tick has to look at
  std::map<std::string, RunId> requests;  // by the ids under which they were submitted
};

void apply(State& state, const Change& change);

// The newest attempt of the run unless it has ended; null when no attempt is live.
const Attempt* live_attempt(const State& state, const RunId& run);

// The nodes of one attempt, in order.
std::vector<const Node*> nodes_of(const State& state, const AttemptId& attempt);

}  // namespace lockstep

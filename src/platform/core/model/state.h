// The controller's whole state, and the rows by which it changes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "map/map.h"
#include "platform/core/model/attempt.h"
#include "platform/core/model/operation.h"
#include "platform/core/model/orphan.h"
#include "platform/core/model/run.h"

namespace lockstep {

// Which store this is. An older copy that is put back gets another generation, so that what is made
// from then on never has the name of anything that the copy does not know.
struct StoreRow {
  std::string generation;
  std::int64_t minted = 0;  // runs and attempts that were made under it

  bool operator==(const StoreRow&) const = default;
};

// How the wall clock stands beside one that cannot be set: what it showed when the steady clock of
// this boot stood at zero. It changes when the wall clock is set, and when the machine starts
// again.
struct ClockRow {
  std::string boot;  // empty: it is not known
  Time zero{};

  bool operator==(const ClockRow&) const = default;
};
// By how much the clock was set from one to the other; zero for less than a second. Nothing: it
// cannot be told, since the machine was started again.
std::optional<Duration> set_by(const std::optional<ClockRow>& before, const ClockRow& now);

// A row as it is after the change; the store writes it, apply() puts it into a State.
using Change = std::variant<Run, Attempt, Node, HostRow, LimitRow, StoreRow, Orphan, ClockRow>;

// What runs of a project have had and may still take, in device-seconds.
struct Usage {
  std::int64_t asked = 0;                    // by those that are not final, by their time-outs
  std::map<std::int64_t, std::int64_t> had;  // by those that ended on that day, counted from 1970
};
// The run's part of it is put in, or taken out (sign -1).
void count_in(Usage& usage, const Run& run, int sign = 1);
std::int64_t day_of(Time time);

// Ordered containers throughout: decisions must not depend on hashing.
struct State {
  Map map;  // neither it, nor `numbers`, nor `engine_was_heard` is a row
  // By project, the highest number that a run was ever given here, also by stores that are gone.
  std::map<std::string, std::int64_t> numbers;
  bool engine_was_heard = true;  // until it has said what is there, no run starts
  StoreRow store;
  std::map<RunId, Run> runs;
  std::map<AttemptId, Attempt> attempts;
  std::map<NodeId, Node> nodes;
  std::map<std::string, HostRow> hosts;  // those that something was ever set for
  std::map<LimitId, LimitRow> limits;
  std::map<NodeName, Orphan> orphans;  // only those that are to end are stored
  std::optional<ClockRow> clock;       // none: no daemon has read it yet
  // Kept by apply():
  std::set<RunId> open;                   // runs that are not final: all that a tick has to look at
  std::map<std::string, RunId> requests;  // by the ids under which they were submitted
  std::map<std::string, Usage> usage;     // by project
};

void apply(State& state, const Change& change);

// The newest attempt of the run unless it has ended; null when no attempt is live.
const Attempt* live_attempt(const State& state, const RunId& run);

// The names of those whose rows are there.
AttemptName name_of(const Attempt& attempt);
NodeName name_of(const State& state, const NodeId& node);
// Whether the state has the node, by its whole name.
bool knows(const State& state, const NodeName& node);

// What its nodes carry with them.
AttemptRecord record_of(const State& state, const AttemptId& attempt);

// Leaves of orphans what a store keeps of them: which are to end, and since when.
void forget_sightings(State& state);
// Those of this run, by name; usually none.
std::vector<const Orphan*> orphans_of(const State& state, const RunId& run);

// The nodes of one attempt, in order.
std::vector<const Node*> nodes_of(const State& state, const AttemptId& attempt);

}  // namespace lockstep

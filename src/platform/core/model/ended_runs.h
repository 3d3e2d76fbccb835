// Ended runs, which the state in memory need not have: the store has all of them
// (docs/design/ended-runs.md). The usage of projects counts them, in memory or not.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "platform/core/model/state.h"

namespace lockstep::model {

// All rows of one run, in the order of their ids.
struct RunRows {
  Run run;
  std::vector<Attempt> attempts{};
  std::vector<Node> nodes{};

  bool operator==(const RunRows&) const = default;
};

// A place in a list of runs: after the run that was submitted then.
struct RunListPlace {
  Time submitted{};
  RunId run{};

  bool operator==(const RunListPlace&) const = default;
};

// Selects the runs of a list, which has the newest first. Those that were submitted at the same
// time come by descending number, then by project.
struct RunFilter {
  std::optional<std::string> project{};
  std::optional<std::vector<std::string>> projects{};  // only of these, which have `project`
  std::optional<RunState> state{};
  std::optional<TagFilter> tag{};
  std::optional<std::string> user{};     // that submitted them
  std::optional<Time> since{}, until{};  // submitted then or later, and before
  std::optional<RunListPlace> after{};
  std::optional<std::vector<RunId>> runs{};  // only of these
  int limit = 50;
};

// The rows of a run that the state has.
RunRows rows_of(const State& state, const RunId& run);
// Puts in the rows of an ended run that it does not have. The usage already counts the run.
void add_ended_run(State& state, const RunRows& rows);
// Removes the rows of an ended run. The usage still counts it, and its number stays given.
void drop_ended_run(State& state, const RunId& run);
// The same for all that ended before, except those after which an open run is to start.
void drop_ended_runs(State& state, Time ended_before);

// Those of the state that match.
std::vector<Run> list_runs(const State& state, const RunFilter& filter);

}  // namespace lockstep::model

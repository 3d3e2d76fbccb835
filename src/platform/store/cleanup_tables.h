// Tables about ended runs that are no rows of the state: what is cleaned up, and which runs were
// removed (docs/design/ended-runs.md).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "platform/core/model/ended_runs.h"
#include "platform/store/database.h"

namespace lockstep::store {

// The janitor's finished work for a run; each level includes those before.
enum class CleanupLevel { none, leftovers, lines, points };

struct EndedRun {
  model::RunId id;
  Time ended{};
  CleanupLevel cleaned = CleanupLevel::none;
};

// Up to so many ended runs, the one that ended first in front; those after `last`.
Result<std::vector<EndedRun>> ended_runs_after(Database& database,
                                               const std::optional<EndedRun>& last, int most);
// The level of a run that ended then.
Result<CleanupLevel> cleanup_level_of(Database& database, const model::RunId& run, Time ended);
// A run that is resumed and ends again is cleaned up again.
Result<void> record_cleaned(Database& database, const EndedRun& run);
// The nodes of all its attempts.
Result<std::vector<model::NodeName>> node_names_of(Database& database, const model::RunId& run);

// A run without rows whose files and reports are to be removed.
struct RemovedRun {
  model::RunId id;
  std::string generation;
  std::vector<model::NodeName> nodes;
};
// Within the transaction that removes its rows.
Result<void> record_removed_run(Database& database, const model::RunRows& run);
Result<std::optional<RemovedRun>> next_removed_run(Database& database);
// Nothing of it is left.
Result<void> finish_removed_run(Database& database, const model::RunId& run);

// Adds the numbers of all runs, and the usage by runs that ended in the last days.
Result<void> add_totals_of_ended_runs(Database& database, model::State& state);

}  // namespace lockstep::store

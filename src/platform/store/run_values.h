// The values of runs that never change, by name: the settings of the command, and fields such as
// user, devices and command (docs/design/run-query.md). Queries read them by run, and find runs by
// value.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "platform/core/model/run.h"
#include "platform/store/database.h"

namespace lockstep::store {

// Nothing if the run has its values.
Result<void> add_run_values(Database& database, const model::Run& run);
Result<void> remove_run_values(Database& database, const model::RunId& run);

// Adds the values of up to `most` runs that an earlier version has stored, the newest ones first.
// True: there may be more.
Result<bool> take_over_run_values(Database& database, int most);
// Runs that wait for it.
Result<std::int64_t> runs_without_values(Database& database);

}  // namespace lockstep::store

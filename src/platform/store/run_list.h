// The runs of a list, found by indices: only those of the answer are read.
#pragma once

#include <vector>

#include "base/result.h"
#include "platform/core/model/ended_runs.h"
#include "platform/store/database.h"

namespace lockstep::store {

// In the order of the list.
Result<std::vector<model::RunId>> listed_runs(Database& database, const model::RunFilter& filter);

}  // namespace lockstep::store

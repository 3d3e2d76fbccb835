// The few runs among which a query's runs are, found by an index.
#pragma once

#include <optional>
#include <vector>

#include "base/result.h"
#include "platform/store/run_query.h"

namespace lockstep::store::detail {

// At most looked_at_max; none: no term of the query leaves so few.
Result<std::optional<std::vector<model::RunId>>> few_runs(Database& database,
                                                          const RunSelection& selection);

}  // namespace lockstep::store::detail

// The runs of a list, found by indices: only those of the answer are read.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "platform/core/model/ended_runs.h"
#include "platform/store/database.h"

namespace lockstep::store {

// In the order of the list.
Result<std::vector<model::RunId>> listed_runs(Database& database, const model::RunFilter& filter);

// The value of a run's metric, as of the lowest rank that logged it, over all attempts.
enum class MetricValue { last, least, greatest };

struct RankedRun {
  model::RunId run;
  double value = 0;

  bool operator==(const RankedRun&) const = default;
};

struct MetricOrder {
  std::string metric;
  MetricValue value = MetricValue::last;
  bool descending = false;
  std::optional<RankedRun> after{};
};

// The runs that match by a metric of theirs, those of equal values by id. Runs without it are left
// out, and those whose value is NaN. The filter's `after` has no effect.
Result<std::vector<RankedRun>> ranked_runs(Database& database, const model::RunFilter& filter,
                                           const MetricOrder& order);

}  // namespace lockstep::store

// The runs that a query line selects (docs/design/run-query.md). A call looks at a bounded number
// of runs.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "platform/core/model/ended_runs.h"
#include "platform/run_query/match.h"
#include "platform/run_query/query.h"
#include "platform/run_query/value.h"
#include "platform/store/database.h"

namespace lockstep::store {

// The most runs that a call looks at.
inline constexpr int kRunsLookedAt = 4000;

// Values of a run in progress that the store does not know.
struct LiveUse {
  double running_seconds = 0;
  double cost_minutes = 0;
};

struct RunSelection {
  run_query::Query query{};
  model::RunFilter filter{};           // also applies; its `after` must be empty
  std::optional<std::string> after{};  // `next` of the call before
  Time now{};
  std::map<model::RunId, LiveUse> live{};
  // The reasons of runs that wait, in place of the stored ones.
  std::map<model::RunId, std::string> wait_reasons{};
  // A reason as the caller may read it, since it may name other runs; none: unchanged.
  std::function<std::string(std::string_view)> readable_reason{};
  int looked_at_max = kRunsLookedAt;
};

struct SelectedRun {
  model::RunId run{};
  std::string state{};  // as of the field
  run_query::Value sorted{}, group{};
};

struct SelectedRuns {
  std::vector<SelectedRun> runs{};
  std::optional<std::string> next{};  // for the runs after those that were looked at
};

// Code::invalid: a sort that no index has, or an `after` of another list.
Result<SelectedRuns> select_runs(Database& database, const RunSelection& selection);

}  // namespace lockstep::store

// RunQuery: a search of runs as SQL over the tables of runs, the latest metrics and the values of
// clients. So a search reads no history, and its cost is that of the project's runs.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "platform/server/mlflow/tracking.h"
#include "platform/store/database.h"

namespace lockstep::mlflow {

struct RunQuery {
  std::string sql;
  std::vector<store::SqlValue> values;
};

RunQuery run_query(const model::RunId& run);
RunQuery run_query(const RunSearch& search);

Result<std::vector<RunRow>> run_rows(store::Database& database, const RunQuery& query);

}  // namespace lockstep::mlflow

// RunCounters: counters of a run, one row of the table `run_counters`.
#pragma once

#include <optional>
#include <string>

#include "platform/insight/insight.h"

namespace lockstep::insight {

struct RunCounters {
  std::int64_t id = 0;       // identifies the run in log_chunks
  std::int64_t next = 1;     // the cursor of the next line
  std::int64_t bytes = 0;    // size of the lines
  std::int64_t cut = 0;      // lines removed because of the size limit
  std::int64_t expired = 0;  // lines removed because of their age
  std::int64_t series = 0;
  std::int64_t refused = 0;  // rejected metric values
  std::int64_t points = 0;   // metric values stored since points were last removed
  std::int64_t points_removed = 0;
  // The generation of its first node that reported; it names the run in series_run().
  std::string generation{};

  bool operator==(const RunCounters&) const = default;
};

// Empty for a run without stored data.
Result<std::optional<RunCounters>> find_counters(store::Database& database,
                                                 const model::RunId& run);
Result<RunCounters> find_or_create_counters(store::Database& database, const model::RunId& run,
                                            const std::string& generation);
Result<void> save(store::Database& database, const RunCounters& counters);

// The run's name in the series store. The generation tells apart runs of the same number in this
// database and in one that was lost: their points are in the same folder.
model::RunId series_run(const RunCounters& counters, const model::RunId& run);

}  // namespace lockstep::insight

// Lines: a run's log as chunks: rows of up to 64 KiB of lines with line ends between them.
//
// With a row per line, a rank that prints a gigabyte would need ten million rows to write, count
// and remove. A chunk is what an agent sent at once: lines of a quiet rank are separate rows, those
// of a busy rank come by the hundred. The cursor of a line is the cursor of the chunk's first line
// plus the line's position in it. Cursors ascend in the order of arrival and are never reused.
#pragma once

#include "platform/insight/detail/run_counters.h"

namespace lockstep::insight {

// Call it within a transaction; the caller saves the counters. `line_max` as in Limits.
Result<void> append_lines(store::Database& database, RunCounters& counters, std::int64_t epoch,
                          const spool::TelemetryItem& item, Bytes line_max);
// Removes the oldest chunks while the run has more than `most`, at most so many of them.
Result<void> cut_lines(store::Database& database, RunCounters& counters, Bytes most,
                       std::int64_t chunks_most);
// Removes up to so many chunks, the oldest first; true while some are left.
Result<bool> expire_lines(store::Database& database, RunCounters& counters,
                          std::int64_t chunks_most, Removal why);

Result<Lines> lines_after(store::Database& database, const RunCounters& counters,
                          const LogQuery& query);
// The last lines before a cursor.
struct LinesBefore {
  std::int64_t before = 0;
  std::int64_t lines = 0;
  std::optional<int> rank{};  // of this rank only
};
Result<std::vector<api::LogLine>> lines_before(store::Database& database,
                                               const RunCounters& counters,
                                               const LinesBefore& query);
// The last lines of a rank in one attempt, about 64 KiB.
Result<std::vector<std::string>> last_lines_of_rank(store::Database& database,
                                                    const RunCounters& counters, std::int64_t epoch,
                                                    int rank);

}  // namespace lockstep::insight

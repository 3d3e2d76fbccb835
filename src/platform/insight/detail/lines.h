// Lines: a run's log as chunks, rows of up to 64 KiB of lines with line ends between them.
//
// A row a line would cost a rank that prints a gigabyte ten million rows to write, to count and to
// cut. A chunk is what an agent sent at once, so a quiet rank's lines are rows of their own and a
// busy rank's come by the hundred. The cursor of a chunk's first line plus a line's place in it is
// that line's cursor: it ascends in the order of arrival and never comes to mean another line.
#pragma once

#include "platform/insight/detail/tally.h"

namespace lockstep::insight {

// Within the caller's transaction; the caller saves the tally. `line_max` as in Limits.
Result<void> append_lines(Database& database, Tally& tally, std::int64_t epoch, const Item& item,
                          Bytes line_max);
// Removes the oldest chunks while the run has more than `most`, at most so many of them.
Result<void> cut_lines(Database& database, Tally& tally, Bytes most, std::int64_t chunks_most);
// Removes up to so many chunks, the oldest first; true while some are left.
Result<bool> expire_lines(Database& database, Tally& tally, std::int64_t chunks_most);

Result<LogPage> lines_after(Database& database, const Tally& tally, const LogQuery& query);
Result<std::vector<Line>> last_lines(Database& database, const Tally& tally, std::int64_t lines,
                                     std::optional<int> rank);

}  // namespace lockstep::insight

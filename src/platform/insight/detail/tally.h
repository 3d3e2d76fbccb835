// Tally: what is counted of a run, one row of the table `tallies`.
#pragma once

#include <optional>

#include "platform/insight/insight.h"

namespace lockstep::insight {

struct Tally {
  std::int64_t id = 0;       // stands for the run in log_chunks
  std::int64_t next = 1;     // the cursor of the next line
  std::int64_t bytes = 0;    // that the lines take
  std::int64_t cut = 0;      // lines that are gone since there were too many
  std::int64_t expired = 0;  // lines that are gone since they were too old
  std::int64_t series = 0;
  std::int64_t refused = 0;  // values of metrics

  bool operator==(const Tally&) const = default;
};

// Nothing for a run of which nothing was stored yet.
Result<std::optional<Tally>> find_tally(Database& database, const RunId& run);
Result<Tally> find_or_make_tally(Database& database, const RunId& run);
Result<void> save(Database& database, const Tally& tally);

}  // namespace lockstep::insight

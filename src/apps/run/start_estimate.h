// Start times of waiting runs for people: as text, and as a timeline.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"

namespace lockstep::cli {

// "in 1h 3m", "any moment" for a moment that has passed, "-" for none.
std::string when_text(const std::optional<Time>& moment, Time now);
// The start of a run by the estimate and the bound: "in about 1h 3m, at the latest in 2h 10m", "at
// any moment".
std::string start_text(Time expected, const std::optional<Time>& latest, Time now);
// "no run stands before it", "2 runs stand before it".
std::string runs_ahead_text(std::int64_t ahead);
// "2026-11-22T12:00:00Z".
std::string moment_text(Time moment);

struct TimelineRow {
  std::string name;
  std::optional<Time> from;   // none: no bar
  std::optional<Time> until;  // none: as long as the line goes
  std::string remark;
  bool waits = false;  // drawn lighter
};

// A row for each run from now on, at most `width` columns wide; all on one scale, with the times of
// its ends above.
std::string timeline_text(const std::vector<TimelineRow>& rows, Time now, int width);

}  // namespace lockstep::cli

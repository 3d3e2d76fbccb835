// Fair share: how much of its fair share of the cluster a project has used.
//
// Example: two projects of equal weight each have a right to half of the used device time. One that
// has used three quarters of it is at 150 percent, the other at 50. If each submits a run of one
// hour, the first run is queued as if it took 1 h 30 min, the second as if it took 30 min.
//
// It is computed once, when a run is submitted, and pending work of the project already counts as
// used. So if a user submits a thousand runs at once, each is further behind than the one before,
// and a key never gets worse afterwards. The factor is limited to the range from a quarter to four:
// a run is passed only by runs that arrived at most 80 of its time limits later.
#pragma once

#include <cstdint>

namespace lockstep::sched {

inline constexpr std::int64_t kFairShareUsedMin = 25, kFairShareUsedMax = 400;  // percent

// The used share of a project in percent, as in PendingRun::fair_share_used. `used`: device-seconds
// that it has used recently, or that its open runs may still use, out of `used_by_all`. The weights
// are positive.
int fair_share_used_percent(std::int64_t used, std::int64_t used_by_all, std::int64_t weight,
                            std::int64_t weight_of_all);

}  // namespace lockstep::sched

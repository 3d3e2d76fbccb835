// Share: how far a project is beyond its fair share of the cluster.
//
// Two projects of equal weight have each a right to half of what is used. One that has used three
// quarters of it is at 150 percent, the other at 50: of two runs of an hour that come together, the
// first stands as if it were of 1 h 30 min, the second as one of 30 min.
//
// It is reckoned once, when a run comes, and what the project asks for already counts as used: so
// whoever submits a thousand runs at once stands further behind with each of them, and a key never
// worsens afterwards. At most four times its time-out, and at least a quarter, counts: a run is
// passed by others at most 80 of its time-outs younger.
#pragma once

#include <cstdint>

namespace lockstep {

inline constexpr std::int64_t kShareLeast = 25, kShareMost = 400;  // percent

// Of a project in percent, as Want::share takes it. used: device-seconds that it has had lately and
// that its runs which wait or run may still take, out of `used_by_all`; the weights are positive.
int share_percent(std::int64_t used, std::int64_t used_by_all, std::int64_t weight,
                  std::int64_t weight_of_all);

}  // namespace lockstep

#include "platform/core/sched/queue/fair_share.h"

#include <algorithm>

#include "base/check.h"

namespace lockstep::sched {

int fair_share_used_percent(std::int64_t used, std::int64_t used_by_all, std::int64_t weight,
                            std::int64_t weight_of_all) {
  LS_CHECK(weight > 0 && weight_of_all >= weight && used >= 0 && used_by_all >= used);
  if (used_by_all == 0) return 100;
  // 128 bits: the device-seconds of a large cluster in a year, times weights, exceed 64 bits.
  __extension__ using Wide = __int128;
  const Wide percent = Wide{100} * used * weight_of_all / (Wide{used_by_all} * weight);
  return static_cast<int>(std::clamp<Wide>(percent, kFairShareUsedMin, kFairShareUsedMax));
}

}  // namespace lockstep::sched

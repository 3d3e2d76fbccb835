#include "platform/agent/progress_watch.h"

#include <algorithm>

namespace lockstep {

void ProgressWatch::note(int local_rank, Duration moment) {
  if (hang_after_ > Duration(0)) last_[local_rank] = moment;
}

std::optional<Duration> ProgressWatch::silence(int local_rank, Duration moment) const {
  const auto last = last_.find(local_rank);
  if (last == last_.end() || moment - last->second < hang_after_) return std::nullopt;
  return moment - last->second;
}

std::optional<Duration> ProgressWatch::next(Duration moment) const {
  std::optional<Duration> least;
  for (const auto& [rank, last] : last_) {
    const Duration left = last + hang_after_ - moment;
    if (left > Duration(0)) least = std::min(left, least.value_or(left));
  }
  return least;
}

}  // namespace lockstep

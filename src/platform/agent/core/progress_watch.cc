#include "platform/agent/core/progress_watch.h"

#include <algorithm>

namespace lockstep::agent {

void ProgressWatch::record_progress(int local_rank, Duration moment) {
  if (hang_after_ > Duration(0)) last_progress_[local_rank] = moment;
}

std::optional<Duration> ProgressWatch::time_without_progress(int local_rank,
                                                             Duration moment) const {
  const auto last = last_progress_.find(local_rank);
  if (last == last_progress_.end() || moment - last->second < hang_after_) return std::nullopt;
  return moment - last->second;
}

std::optional<Duration> ProgressWatch::next_timeout(Duration moment) const {
  std::optional<Duration> least;
  for (const auto& [rank, last] : last_progress_) {
    const Duration left = last + hang_after_ - moment;
    if (left > Duration(0)) least = std::min(left, least.value_or(left));
  }
  return least;
}

}  // namespace lockstep::agent

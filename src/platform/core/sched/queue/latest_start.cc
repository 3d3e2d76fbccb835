#include "platform/core/sched/queue/latest_start.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "platform/core/sched/queue/waiting_list.h"

namespace lockstep::sched {
namespace {

// A bound beyond this counts as none, and sums cannot overflow.
constexpr Duration kFarthest = std::chrono::hours(24 * 365 * 100);

Duration capped(Duration one, std::int64_t times) {
  if (one <= Duration(0) || times <= 0) return Duration(0);
  return times > kFarthest / one ? kFarthest : one * times;
}

class LatestStartBounds {
 public:
  LatestStartBounds(const SchedulingPolicy& policy, std::span<const WaitingRun> waiting,
                    const LatestStartInput& input, Time now)
      : policy_(policy), waiting_(waiting), open_(input), now_(now) {
    for (const Allocation* allocation : input.allocations) count(*allocation);
    for (const PendingRun* pending : input.ineligible) count(*pending);
    for (std::size_t i = 0; i < waiting.size(); ++i)
      if (can_be_head(waiting[i])) count(*input.waiting[i]);
    std::ranges::sort(keys_);
    std::ranges::sort(debug_keys_);
  }

  std::vector<std::optional<Time>> compute() {
    std::vector<std::optional<Time>> latest(waiting_.size());
    const auto first = first_start();
    if (any_overruns_ || !first) return latest;
    std::int64_t ahead = 0;
    std::int64_t key_most = std::numeric_limits<std::int64_t>::min();
    for (std::size_t i = 0; i < waiting_.size(); ++i) {
      const PendingRun& pending = *open_.waiting[i];
      if (pending.run_class == model::RunClass::preemptible) continue;
      // Includes runs that cannot start: others of their project may be behind their priority.
      key_most = std::max(key_most, order_key(policy_, pending));
      if (!can_be_head(waiting_[i])) continue;
      if (!is_limited(pending))
        latest[i] =
            bound(pending, *first, ahead, std::max(key_most, key_behind_ineligible(pending)));
      ++ahead;
    }
    return latest;
  }

 private:
  // True for a run that can be placed; one that cannot is never a head.
  static bool can_be_head(const WaitingRun& run) { return run.blocker.has_value(); }

  bool is_limited(const model::RunId& run, const std::string& user) const {
    return open_.limits.project_devices.contains(run.project) ||
           open_.limits.user_devices.contains(user);
  }
  bool is_limited(const PendingRun& pending) const { return is_limited(pending.run, pending.user); }

  void count(const Allocation& allocation) {
    Time end = allocation.expected_end + policy_.overhead;
    any_overruns_ = any_overruns_ || end < now_;
    if (!allocation.move_destination.empty()) end += allocation.time_limit;
    allocations_end_ = std::max(allocations_end_, end);
    count(allocation.run_class, is_limited(allocation.run, allocation.user));
  }

  void count(const PendingRun& pending) {
    count(pending.run_class, is_limited(pending));
    any_limited_waits_ = any_limited_waits_ || is_limited(pending);
    serial_total_ += std::min(kFarthest, pending.time_limit + policy_.overhead);
    serial_total_ = std::min(serial_total_, kFarthest);
    longest_.second = std::max(longest_.second, std::min(longest_.first, pending.time_limit));
    longest_.first = std::max(longest_.first, pending.time_limit);
    if (pending.run_class != model::RunClass::preemptible)
      keys_.push_back(order_key(policy_, pending));
    if (pending.run_class == model::RunClass::debug)
      debug_keys_.push_back(order_key(policy_, pending));
  }

  void count(model::RunClass run_class, bool limited) {
    debug_ += run_class == model::RunClass::debug;
    limited_ += limited;
    preemptible_ = preemptible_ || run_class == model::RunClass::preemptible;
  }

  // By then the first head has started. A run that exceeds a limit has an expected start, too: a
  // later start is a bound as well.
  std::optional<Time> first_start() const {
    std::optional<Time> start;
    for (const WaitingRun& run : waiting_)
      if (can_be_head(run) && run.expected_start)
        start = std::max(start.value_or(now_), *run.expected_start);
    if (start) *start += policy_.overhead + eviction();
    return start;
  }

  // How long preemptible runs take to leave once their devices are needed.
  Duration eviction() const { return preemptible_ ? policy_.overhead : Duration(0); }

  // The greatest key of ineligible runs of its project with a higher priority.
  std::int64_t key_behind_ineligible(const PendingRun& pending) const {
    std::int64_t key = std::numeric_limits<std::int64_t>::min();
    for (const PendingRun* later : open_.ineligible)
      if (later->run.project == pending.run.project && later->priority > pending.priority)
        key = std::max(key, order_key(policy_, *later));
    return key;
  }

  // ahead: how many runs are ahead of it; key_most: the greatest key that these and it may have.
  std::optional<Time> bound(const PendingRun& pending, Time first, std::int64_t ahead,
                            std::int64_t key_most) const {
    const auto up_to = [&](const std::vector<std::int64_t>& keys) {
      return std::ranges::upper_bound(keys, key_most) - keys.begin();
    };
    const std::int64_t join =
        up_to(keys_) - (ahead + 1) + std::ssize(debug_keys_) - up_to(debug_keys_);
    std::int64_t changes = join;
    if (std::ssize(debug_keys_) > (pending.run_class == model::RunClass::debug ? 1 : 0))
      changes += debug_;
    if (any_limited_waits_) changes += limited_;
    const std::int64_t hops = ahead + join + changes;
    Time by_hops = first;
    if (hops > 0)
      by_hops = std::max(allocations_end_ + eviction(), first + hop(pending)) +
                capped(hop(pending), hops - 1);
    const Time in_turn = std::max(now_, allocations_end_) + serial_total_ -
                         std::min(serial_total_, pending.time_limit + policy_.overhead);
    const Time latest = std::min(by_hops, in_turn);
    return latest - now_ >= kFarthest ? std::nullopt : std::optional(latest);
  }

  // Its own limit does not count.
  Duration hop(const PendingRun& pending) const {
    return (pending.time_limit == longest_.first ? longest_.second : longest_.first) +
           policy_.overhead + eviction();
  }

  const SchedulingPolicy& policy_;
  const std::span<const WaitingRun> waiting_;
  const LatestStartInput& open_;
  const Time now_;
  bool any_overruns_ = false;                // a run exceeds its limit and overhead
  bool preemptible_ = false;                 // there is a preemptible run
  bool any_limited_waits_ = false;           // a run under a limit waits
  Time allocations_end_{};                   // when all current allocations have ended
  Duration serial_total_{};                  // of all waiting runs, one after the other
  std::pair<Duration, Duration> longest_{};  // the two longest limits of waiting runs
  std::int64_t debug_ = 0, limited_ = 0;     // number of runs
  std::vector<std::int64_t> keys_;           // of waiting runs that are not preemptible, ascending
  std::vector<std::int64_t> debug_keys_;     // of debug runs among them
};

}  // namespace

std::vector<std::optional<Time>> latest_start_times(const SchedulingPolicy& policy,
                                                    std::span<const WaitingRun> waiting,
                                                    const LatestStartInput& input, Time now) {
  LS_CHECK(waiting.size() == input.waiting.size());
  return LatestStartBounds(policy, waiting, input, now).compute();
}

}  // namespace lockstep::sched

#include "platform/core/sched/latest_start.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "platform/core/sched/waiting_list.h"

namespace lockstep {
namespace {

// No bound is told beyond this, and sums cannot overflow.
constexpr Duration kFarthest = std::chrono::hours(24 * 365 * 100);

Duration capped(Duration one, std::int64_t times) {
  if (one <= Duration(0) || times <= 0) return Duration(0);
  return times > kFarthest / one ? kFarthest : one * times;
}

class Bounds {
 public:
  Bounds(const SchedulingPolicy& policy, std::span<const WaitingRun> told, const OpenRuns& open,
         Time now)
      : policy_(policy), told_(told), open_(open), now_(now) {
    for (const Holding* holding : open.holding) count(*holding);
    for (const Want* want : open.later) count(*want);
    for (std::size_t i = 0; i < told.size(); ++i)
      if (blocks(told[i])) count(*open.waiting[i]);
    std::ranges::sort(keys_);
    std::ranges::sort(debug_keys_);
  }

  std::vector<std::optional<Time>> of_all() {
    std::vector<std::optional<Time>> latest(told_.size());
    const auto first = first_start();
    if (outlives_ || !first) return latest;
    std::int64_t ahead = 0;
    std::int64_t key_most = std::numeric_limits<std::int64_t>::min();
    for (std::size_t i = 0; i < told_.size(); ++i) {
      const Want& want = *open_.waiting[i];
      if (want.run_class == RunClass::preemptible) continue;
      // Also of one that cannot start: those of its project may stand behind its priority.
      key_most = std::max(key_most, order_key(policy_, want));
      if (!blocks(told_[i])) continue;
      if (!is_limited(want))
        latest[i] = bound(want, *first, ahead, std::max(key_most, key_behind_later(want)));
      ++ahead;
    }
    return latest;
  }

 private:
  // A run that can be placed; one that cannot keeps none waiting.
  static bool blocks(const WaitingRun& run) { return run.blocker.has_value(); }

  bool is_limited(const RunId& run, const std::string& user) const {
    return open_.limits.project_devices.contains(run.project) ||
           open_.limits.user_devices.contains(user);
  }
  bool is_limited(const Want& want) const { return is_limited(want.run, want.user); }

  void count(const Holding& holding) {
    Time end = holding.expected_end + policy_.overhead;
    outlives_ = outlives_ || end < now_;
    if (!holding.moving_to.empty()) end += holding.limit;
    all_end_ = std::max(all_end_, end);
    count(holding.run_class, is_limited(holding.run, holding.user));
  }

  void count(const Want& want) {
    count(want.run_class, is_limited(want));
    limits_wait_ = limits_wait_ || is_limited(want);
    in_turn_ += std::min(kFarthest, want.limit + policy_.overhead);
    in_turn_ = std::min(in_turn_, kFarthest);
    longest_.second = std::max(longest_.second, std::min(longest_.first, want.limit));
    longest_.first = std::max(longest_.first, want.limit);
    if (want.run_class != RunClass::preemptible) keys_.push_back(order_key(policy_, want));
    if (want.run_class == RunClass::debug) debug_keys_.push_back(order_key(policy_, want));
  }

  void count(RunClass run_class, bool limited) {
    debug_ += run_class == RunClass::debug;
    limited_ += limited;
    preemptible_ = preemptible_ || run_class == RunClass::preemptible;
  }

  // By then the first head has started. A run that a limit keeps has a start, too: a later one is
  // a bound as well.
  std::optional<Time> first_start() const {
    std::optional<Time> start;
    for (const WaitingRun& run : told_)
      if (blocks(run) && run.expected_start)
        start = std::max(start.value_or(now_), *run.expected_start);
    if (start) *start += policy_.overhead + eviction();
    return start;
  }

  // How long preemptible runs take to leave once their devices are needed.
  Duration eviction() const { return preemptible_ ? policy_.overhead : Duration(0); }

  // Where the run stands once those of its project have come that have a higher priority.
  std::int64_t key_behind_later(const Want& want) const {
    std::int64_t key = std::numeric_limits<std::int64_t>::min();
    for (const Want* later : open_.later)
      if (later->run.project == want.run.project && later->priority > want.priority)
        key = std::max(key, order_key(policy_, *later));
    return key;
  }

  // ahead: how many stand before it; key_most: the greatest key that these and it may have.
  std::optional<Time> bound(const Want& want, Time first, std::int64_t ahead,
                            std::int64_t key_most) const {
    const auto up_to = [&](const std::vector<std::int64_t>& keys) {
      return std::ranges::upper_bound(keys, key_most) - keys.begin();
    };
    const std::int64_t join =
        up_to(keys_) - (ahead + 1) + std::ssize(debug_keys_) - up_to(debug_keys_);
    std::int64_t changes = join;
    if (std::ssize(debug_keys_) > (want.run_class == RunClass::debug ? 1 : 0)) changes += debug_;
    if (limits_wait_) changes += limited_;
    const std::int64_t hops = ahead + join + changes;
    Time by_hops = first;
    if (hops > 0)
      by_hops = std::max(all_end_ + eviction(), first + hop(want)) + capped(hop(want), hops - 1);
    const Time in_turn =
        std::max(now_, all_end_) + in_turn_ - std::min(in_turn_, want.limit + policy_.overhead);
    const Time latest = std::min(by_hops, in_turn);
    return latest - now_ >= kFarthest ? std::nullopt : std::optional(latest);
  }

  // Its own limit has no part in it.
  Duration hop(const Want& want) const {
    return (want.limit == longest_.first ? longest_.second : longest_.first) + policy_.overhead +
           eviction();
  }

  const SchedulingPolicy& policy_;
  const std::span<const WaitingRun> told_;
  const OpenRuns& open_;
  const Time now_;
  bool outlives_ = false;                    // a run its limit and overhead
  bool preemptible_ = false;                 // there is such a run
  bool limits_wait_ = false;                 // a run under a limit waits
  Time all_end_{};                           // that hold devices now
  Duration in_turn_{};                       // of all that wait, one after the other
  std::pair<Duration, Duration> longest_{};  // limits of those that wait: the longest, the next
  std::int64_t debug_ = 0, limited_ = 0;     // how many
  std::vector<std::int64_t> keys_;        // of those that wait and are not preemptible, ascending
  std::vector<std::int64_t> debug_keys_;  // of debug runs among them
};

}  // namespace

std::vector<std::optional<Time>> latest_starts(const SchedulingPolicy& policy,
                                               std::span<const WaitingRun> told,
                                               const OpenRuns& open, Time now) {
  LS_CHECK(told.size() == open.waiting.size());
  return Bounds(policy, told, open, now).of_all();
}

}  // namespace lockstep

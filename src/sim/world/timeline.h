// Virtual time: a queue of actions ordered by (time, order of planning), and the clock that the
// daemon and the hosts read. Nothing sleeps and nothing runs at the same time as anything else, so
// a seed gives the same simulation on every machine.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/steady_clock.h"

namespace lockstep::sim {

class Timeline {
 public:
  using Action = std::function<void()>;

  // Since the simulation began; it never goes back and never jumps.
  Duration now() const { return now_; }
  // delay >= 0. Actions for the same moment run in the order of planning.
  void after(Duration delay, Action action);
  // Goes to the next action that is due by `until` and does it; false when there is none.
  bool step(Duration until);
  std::int64_t steps() const { return steps_; }

 private:
  struct Entry {
    Duration at;
    std::int64_t order;
    Action action;
  };
  static bool later(const Entry& a, const Entry& b);

  Duration now_{};
  std::int64_t planned_ = 0;
  std::int64_t steps_ = 0;
  std::vector<Entry> heap_;
};

// The wall clock and the steady one: all machines share them. The wall clock jumps when it is set,
// and when the machines sleep; the steady one is the timeline.
class SimClock : public Clock, public SteadyClock {
 public:
  explicit SimClock(const Timeline& timeline) : timeline_(timeline) {}
  Time now() const override { return at(timeline_.now()); }
  Duration since_boot() const override { return timeline_.now(); }
  std::string boot_id() const override { return "the only boot"; }
  // The time that the wall clock would have shown then with its current setting.
  Time at(Duration moment) const { return kBeginning + moment + jumped_; }
  void jump(Duration by) {
    jumped_ += by;
    was_set_back_ = was_set_back_ || by < Duration(0);
  }
  bool was_set_back() const { return was_set_back_; }

 private:
  static constexpr Time kBeginning = Time(std::chrono::hours(24 * 365 * 50));
  const Timeline& timeline_;
  Duration jumped_{};
  bool was_set_back_ = false;
};

}  // namespace lockstep::sim

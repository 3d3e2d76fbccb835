#include "net/loop_lag.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/steady_clock.h"

namespace lockstep::net {
namespace {

constexpr Duration kInterval = std::chrono::milliseconds(20);
constexpr Duration kLagPeriod = std::chrono::minutes(1);

}  // namespace

LoopLag::LoopLag(Loop& loop) : loop_(loop) { expect_next(); }

Duration LoopLag::longest() const { return std::max(longest_, longest_previous_); }

void LoopLag::expect_next() {
  const Duration due = MonotonicClock().since_boot() + kInterval;
  timer_ = loop_.after(kInterval, [this, due] {
    record(MonotonicClock().since_boot() - due);
    expect_next();
  });
}

void LoopLag::record(Duration lag) {
  const Duration now = MonotonicClock().since_boot();
  if (now - period_begin_ >= kLagPeriod) {
    longest_previous_ = std::exchange(longest_, Duration(0));
    period_begin_ = now;
  }
  longest_ = std::max(longest_, lag);
}

}  // namespace lockstep::net

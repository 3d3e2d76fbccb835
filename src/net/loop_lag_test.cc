#include "net/loop_lag.h"

#include <chrono>

#include <gtest/gtest.h>

#include "base/clock.h"

namespace lockstep::net {
namespace {

using std::chrono::milliseconds;

TEST(Lag, ACallbackThatKeepsTheLoopIsMeasured) {
  Loop loop;
  LoopLag lag(loop);
  const Timer block = loop.after(milliseconds(1), [] {
    for (const Deadline end = Deadline::after(milliseconds(200)); !end.passed();) {
    }
  });
  const Timer end = loop.after(milliseconds(250), [&] { loop.stop(); });
  loop.run();
  EXPECT_GE(lag.longest(), milliseconds(150));
}

}  // namespace
}  // namespace lockstep::net

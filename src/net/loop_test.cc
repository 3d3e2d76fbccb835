#include "net/loop.h"

#include <csignal>
#include <stdexcept>
#include <string>
#include <thread>

#include <gtest/gtest.h>

namespace lockstep::net {
namespace {

using std::chrono::milliseconds;

TEST(Loop, RunsWhatIsPostedInOrderUntilStopped) {
  Loop loop;
  std::string order;
  loop.post([&] { order += 'a'; });
  loop.post([&] { order += 'b'; });
  loop.post([&] { loop.stop(); });
  loop.run();
  EXPECT_EQ(order, "ab");
}

TEST(Loop, DoesNotForgetThatItWasStoppedBeforeItRan) {
  Loop loop;
  loop.stop();
  loop.run();
}

TEST(Loop, IsWokenByAnotherThread) {
  Loop loop;
  std::thread other([&] { loop.post([&] { loop.stop(); }); });
  loop.run();
  other.join();
}

TEST(Loop, ATimerRunsOnceItsTimeHasCome) {
  Loop loop;
  std::string order;
  Timer late;
  Timer early = loop.after(milliseconds(1), [&] {
    order += 'x';
    late = loop.after(milliseconds(20), [&] { loop.stop(); });
  });
  loop.run();
  EXPECT_EQ(order, "x");
}

TEST(Loop, ACancelledADestroyedAndAReplacedTimerDoNotRun) {
  Loop loop;
  int runs = 0;
  Timer cancelled = loop.after(milliseconds(1), [&] { ++runs; });
  cancelled.cancel();
  {
    Timer destroyed = loop.after(milliseconds(1), [&] { ++runs; });
  }
  Timer replaced = loop.after(milliseconds(1), [&] { ++runs; });
  replaced = loop.after(milliseconds(10), [&] { loop.stop(); });
  loop.run();
  EXPECT_EQ(runs, 0);
}

TEST(Loop, ATimerMayOutliveItsLoop) {
  Timer timer;
  {
    Loop loop;
    timer = loop.after(std::chrono::hours(1), [] {});
  }
  timer.cancel();
}

TEST(Loop, AnExceptionDoesNotEndIt) {
  Loop loop;
  loop.post([] { throw std::runtime_error("a mistake"); });
  loop.post([&] { loop.stop(); });
  loop.run();
}

TEST(Loop, SignalsBecomeCalls) {
  Loop loop;
  int seen = 0;
  loop.on_signals({SIGTERM, SIGINT}, [&](int signal) {
    seen += signal;
    if (signal == SIGINT) loop.stop();
  });
  loop.post([] { std::raise(SIGTERM); });
  loop.post([] { std::raise(SIGINT); });
  loop.run();
  EXPECT_EQ(seen, SIGTERM + SIGINT);
}

}  // namespace
}  // namespace lockstep::net

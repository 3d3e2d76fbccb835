#include "base/task_thread.h"

#include <future>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(TaskThread, RunsTasksInTheirOrderOnOneOtherThread) {
  std::vector<int> order;
  std::promise<std::thread::id> done;
  TaskThread thread(10);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(thread.add([&order, i] { order.push_back(i); }));
  ASSERT_TRUE(thread.add([&done] { done.set_value(std::this_thread::get_id()); }));
  EXPECT_NE(done.get_future().get(), std::this_thread::get_id());
  EXPECT_EQ(order, (std::vector{0, 1, 2, 3, 4}));
}

TEST(TaskThread, RefusesATaskWhenTooManyWait) {
  std::promise<void> begun, release;
  TaskThread thread(2);
  ASSERT_TRUE(thread.add([&] {
    begun.set_value();
    release.get_future().wait();
  }));
  begun.get_future().wait();
  EXPECT_TRUE(thread.add([] {}));
  EXPECT_TRUE(thread.add([] {}));
  EXPECT_FALSE(thread.add([] {}));
  release.set_value();
}

}  // namespace
}  // namespace lockstep

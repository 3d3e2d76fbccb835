#include "train/parameter_server/task_queue.h"

#include <optional>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "train/parameter_server/update_order.h"

namespace lockstep::train::task_queue_test {
namespace {

TaskQueue queue_of(int workers, std::optional<int> staleness) {
  TaskQueue queue(workers, staleness);
  for (int worker = 0; worker < workers; ++worker) queue.join(worker);
  return queue;
}

TEST(Tasks, NoneIsGivenOutBeforeAllWorkersHaveCome) {
  TaskQueue queue(2, 0);
  queue.join(0);
  EXPECT_EQ(queue.take(0), std::nullopt);
  queue.join(1);
  EXPECT_EQ(queue.take(0), (Task{0, 0}));
}

TEST(Tasks, WithoutStalenessEachWorkerHasOneShareOfEachStepThatOfItsOwnNumber) {
  auto queue = queue_of(3, 0);
  for (int step = 0; step < 4; ++step) {
    for (const int worker : {2, 0, 1}) EXPECT_EQ(queue.take(worker), (Task{step, worker}));
    queue.finish(1);
    EXPECT_EQ(queue.take(1), std::nullopt) << "the step is not complete";
    queue.finish(0);
    queue.finish(2);
  }
  EXPECT_EQ(queue.oldest_step(), 4);
}

TEST(Tasks, WithoutStalenessAWorkerThatIsLateHasItsShareKept) {
  auto queue = queue_of(2, 0);
  EXPECT_EQ(queue.take(0), (Task{0, 0}));
  queue.finish(0);
  EXPECT_EQ(queue.take(0), std::nullopt);
  EXPECT_EQ(queue.take(1), (Task{0, 1}));
}

TEST(Tasks, AFastWorkerTakesMoreSharesAndWaitsOnlyAtTheBound) {
  auto queue = queue_of(2, 2);
  EXPECT_EQ(queue.take(1), (Task{0, 1}));  // slow
  std::vector<Task> taken;
  while (const auto task = queue.take(0)) {
    taken.push_back(*task);
    queue.finish(0);
  }
  EXPECT_EQ(taken, (std::vector<Task>{{0, 0}, {1, 0}, {1, 1}, {2, 0}, {2, 1}}));
  queue.finish(1);
  EXPECT_EQ(queue.oldest_step(), 3);
  EXPECT_EQ(queue.take(0), (Task{3, 0}));
}

TEST(Tasks, WithoutABoundNoWorkerEverWaits) {
  auto queue = queue_of(2, std::nullopt);
  ASSERT_TRUE(queue.take(1));
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(queue.take(0));
    queue.finish(0);
  }
  EXPECT_EQ(queue.oldest_step(), 0);
}

TEST(Tasks, ThatOfALostWorkerIsTheNextThatIsGivenOut) {
  for (const auto staleness : {std::optional(0), std::optional(3), std::optional<int>()}) {
    auto queue = queue_of(3, staleness);
    for (int worker = 0; worker < 3; ++worker) ASSERT_TRUE(queue.take(worker));
    queue.finish(0);
    queue.leave(2);
    EXPECT_EQ(queue.take(0), (Task{0, 2}));
    queue.finish(0);
    queue.finish(1);
    EXPECT_EQ(queue.oldest_step(), 1);
  }
}

TEST(Tasks, OneWorkerLeftComputesAllSharesInStepAndOneThatJoinsTakesSomeAgain) {
  auto queue = queue_of(2, 0);
  queue.leave(1);
  for (const auto expected : {Task{0, 0}, Task{0, 1}, Task{1, 0}}) {
    EXPECT_EQ(queue.take(0), expected);
    queue.finish(0);
  }
  queue.join(1);
  EXPECT_EQ(queue.take(0), std::nullopt);
  EXPECT_EQ(queue.take(1), (Task{1, 1}));
}

TEST(Tasks, EachShareIsDoneOnceWhateverWorkersAreLost) {
  for (const auto staleness : {std::optional(0), std::optional(2), std::optional<int>()}) {
    auto queue = queue_of(4, staleness);
    UpdateOrder order(4, staleness);
    std::set<Task> done;
    std::vector<std::optional<Task>> has(4);
    unsigned random = 7;
    for (int i = 0; i < 4000; ++i) {
      random = random * 1664525 + 1013904223;
      const int worker = static_cast<int>(random >> 20) % 4;
      auto& task = has[static_cast<std::size_t>(worker)];
      if (task && random % 11 == 0) {
        if (random % 2 == 0) order.add(*task);  // lost before the first server had it
        queue.leave(worker);
        queue.join(worker);
        task.reset();
      } else if (task) {
        EXPECT_TRUE(done.insert(*task).second);
        order.add(*task);
        while (order.is_complete()) order.apply();
        queue.finish(worker);
        task.reset();
      } else if ((task = queue.take(worker)) && staleness) {
        EXPECT_TRUE(order.serves(task->step));
      }
    }
    EXPECT_GT(queue.oldest_step(), 100);
    for (std::int64_t step = 0; step < queue.oldest_step(); ++step)
      for (int share = 0; share < 4; ++share) EXPECT_TRUE(done.contains({step, share}));
  }
}

TEST(Updates, AreTheGradientsOfOneStepEachOnceAndAppliedInOrder) {
  UpdateOrder order(2, 1);
  EXPECT_EQ(order.add({1, 0}), 1);
  EXPECT_EQ(order.add({1, 1}), 1);
  EXPECT_FALSE(order.is_complete()) << "step 0 comes first";
  EXPECT_EQ(order.add({0, 1}), 0);
  EXPECT_EQ(order.add({0, 1}), std::nullopt);
  EXPECT_EQ(order.add({0, 0}), 0);
  ASSERT_TRUE(order.is_complete());
  order.apply();
  ASSERT_TRUE(order.is_complete());
  order.apply();
  EXPECT_EQ(order.version(), 2);
  EXPECT_EQ(order.add({0, 0}), std::nullopt) << "it was applied";
  EXPECT_TRUE(order.serves(3));
  EXPECT_FALSE(order.serves(4));
}

TEST(Updates, WithoutABoundAreTheNextGradientsThatCome) {
  UpdateOrder order(2, std::nullopt, 5);
  EXPECT_EQ(order.add({5, 0}), 5);
  EXPECT_EQ(order.add({6, 0}), 5);
  ASSERT_TRUE(order.is_complete());
  EXPECT_EQ(order.add({6, 0}), std::nullopt);
  EXPECT_EQ(order.add({6, 1}), 6);
  order.apply();
  EXPECT_FALSE(order.is_complete());
  EXPECT_TRUE(order.serves(100));
}

}  // namespace
}  // namespace lockstep::train::task_queue_test

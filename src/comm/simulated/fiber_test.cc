#include "comm/simulated/fiber.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::comm {
namespace {

constexpr std::size_t kStack = 64 * 1024;

TEST(Fiber, GoesOnWhereItYielded) {
  const auto stacks = FiberStacks::create(1, kStack).value();
  std::string told;
  Fiber* self = nullptr;
  Fiber fiber(stacks[0], [&] {
    for (const char word : {'a', 'b', 'c'}) {
      told += word;
      self->yield();
    }
  });
  self = &fiber;
  for (int turn = 0; turn < 3; ++turn) {
    fiber.resume();
    told += '.';
    EXPECT_FALSE(fiber.ended());
  }
  fiber.resume();
  EXPECT_TRUE(fiber.ended());
  EXPECT_EQ(told, "a.b.c.");
}

TEST(Fiber, ManyTakeTurnsEachOnItsOwnStack) {
  constexpr int kFibers = 2000;
  const auto stacks = FiberStacks::create(kFibers, kStack).value();
  std::vector<std::unique_ptr<Fiber>> fibers;
  long sum = 0;
  for (int i = 0; i < kFibers; ++i)
    fibers.push_back(std::make_unique<Fiber>(stacks[static_cast<std::size_t>(i)], [&, i] {
      const std::vector<int> own(100, i);
      for (const int value : own) {
        sum += value;
        if (value % 2 == 0) fibers[static_cast<std::size_t>(i)]->yield();
      }
    }));
  for (bool going = true; going;) {
    going = false;
    for (const auto& fiber : fibers)
      if (!fiber->ended()) {
        fiber->resume();
        going = true;
      }
  }
  EXPECT_EQ(sum, 100L * kFibers * (kFibers - 1) / 2);
}

TEST(FiberDeathTest, AStackThatOverflowsHitsItsGuard) {
  const auto overflow = [] {
    const auto stacks = FiberStacks::create(2, kStack).value();
    Fiber fiber(stacks[1], [&] {
      volatile std::byte* const below = stacks[1].data() - 1;
      *below = std::byte{1};
    });
    fiber.resume();
  };
  EXPECT_DEATH(overflow(), "");
}

}  // namespace
}  // namespace lockstep::comm

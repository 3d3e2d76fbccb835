#include "comm/torch/freed_pages.h"

#include <array>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::comm {
namespace {

using Dropped = std::vector<std::byte*>;

constexpr FreedPages::Time kNow{};
std::array<std::byte, 3> pages;

TEST(FreedPages, ATensorOfTheSameSizeGetsThem) {
  FreedPages freed;
  EXPECT_EQ(freed.take(8, kNow).pages, nullptr);
  EXPECT_EQ(freed.keep(&pages[0], 8, kNow), Dropped{});
  EXPECT_EQ(freed.take(8, kNow).pages, &pages[0]);
  EXPECT_EQ(freed.take(8, kNow).pages, nullptr);
}

TEST(FreedPages, UsedAndKeptTogetherAreNeverMoreThanWasUsedAtOnce) {
  FreedPages freed;
  freed.take(8, kNow);
  freed.take(16, kNow);
  EXPECT_EQ(freed.keep(&pages[0], 8, kNow), Dropped{});
  EXPECT_EQ(freed.keep(&pages[1], 16, kNow), Dropped{});
  const auto other = freed.take(4, kNow);
  EXPECT_EQ(other.pages, nullptr);
  EXPECT_EQ(other.dropped, Dropped{&pages[0]});
  EXPECT_EQ(freed.take(24, kNow).dropped, Dropped{&pages[1]});
}

TEST(FreedPages, AreReturnedIfNoTensorTakesThemForSomeSeconds) {
  FreedPages freed;
  freed.take(8, kNow);
  freed.take(8, kNow);
  freed.keep(&pages[0], 8, kNow);
  const auto later = kNow + FreedPages::kKept;
  EXPECT_EQ(freed.keep(&pages[1], 8, later), Dropped{});
  const auto taken = freed.take(4, later + std::chrono::nanoseconds(1));
  EXPECT_EQ(taken.dropped, Dropped{&pages[0]});
}

TEST(FreedPages, MemoryThatCouldNotBeAllocatedDoesNotCount) {
  FreedPages freed;
  freed.take(8, kNow);
  freed.take(8, kNow);
  freed.forget(8);
  EXPECT_EQ(freed.keep(&pages[0], 8, kNow), Dropped{});
  EXPECT_EQ(freed.take(16, kNow).dropped, Dropped{&pages[0]});
}

}  // namespace
}  // namespace lockstep::comm

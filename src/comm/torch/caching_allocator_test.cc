#include "comm/torch/caching_allocator.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep::comm {
namespace {

constexpr Bytes kSize = 8_KiB;

std::shared_ptr<Buffer> lend(CachingAllocator& memory, Bytes size) {
  auto lent = memory.allocate(size);
  EXPECT_TRUE(lent) << lent.error().message;
  return *lent;
}

TEST(CachingAllocator, OfASizeThatCameBackIsLentAgainAsItWas) {
  const auto memory = CachingAllocator::create();
  auto lent = lend(*memory, kSize);
  std::byte* const data = lent->data();
  data[100] = std::byte{42};
  lent.reset();
  EXPECT_EQ(memory->cached_bytes(), kSize);
  lent = lend(*memory, kSize);
  EXPECT_EQ(lent->data(), data);
  EXPECT_EQ(data[100], std::byte{42});
  EXPECT_NE(lend(*memory, kSize)->data(), data);
}

TEST(CachingAllocator, LentAndWaitingIsNeverMoreThanWasLentAtOnce) {
  const auto memory = CachingAllocator::create();
  auto first = lend(*memory, kSize);
  auto second = lend(*memory, 16_KiB);
  first.reset();
  second.reset();
  EXPECT_EQ(memory->cached_bytes(), 24_KiB);
  // A size that was not allocated before: the buffer that was cached longest is evicted.
  auto other = lend(*memory, 4_KiB);
  EXPECT_EQ(memory->cached_bytes(), 16_KiB);
  other.reset();
  EXPECT_EQ(memory->cached_bytes(), 20_KiB);
  lend(*memory, 24_KiB);
  EXPECT_EQ(memory->cached_bytes(), 24_KiB);
}

TEST(CachingAllocator, MayComeBackWhenEverythingElseIsGone) {
  auto memory = CachingAllocator::create();
  const auto lent = lend(*memory, kSize);
  memory.reset();
  lent->data()[0] = std::byte{1};
}

TEST(CachingAllocator, OfNothingIsNothing) {
  const auto memory = CachingAllocator::create();
  EXPECT_EQ(lend(*memory, Bytes(0))->size(), Bytes(0));
}

TEST(CachingAllocator, OfAForkedChildIsNotItsParents) {
  auto lent = lend(*CachingAllocator::for_this_process(), kSize);
  std::byte* const data = lent->data();
  lent.reset();
  const pid_t child = ::fork();
  if (child == 0)
    ::_exit(lend(*CachingAllocator::for_this_process(), kSize)->data() == data ? 1 : 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(lend(*CachingAllocator::for_this_process(), kSize)->data(), data);
}

}  // namespace
}  // namespace lockstep::comm

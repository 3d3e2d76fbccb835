#include "comm/torch/lent_memory.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep {
namespace {

constexpr Bytes kSize = 8_KiB;

std::shared_ptr<Buffer> lend(LentMemory& memory, Bytes size) {
  auto lent = memory.lend(size);
  EXPECT_TRUE(lent) << lent.error().message;
  return *lent;
}

TEST(LentMemory, OfASizeThatCameBackIsLentAgainAsItWas) {
  const auto memory = LentMemory::create();
  auto lent = lend(*memory, kSize);
  std::byte* const data = lent->data();
  data[100] = std::byte{42};
  lent.reset();
  EXPECT_EQ(memory->waiting(), kSize);
  lent = lend(*memory, kSize);
  EXPECT_EQ(lent->data(), data);
  EXPECT_EQ(data[100], std::byte{42});
  EXPECT_NE(lend(*memory, kSize)->data(), data);
}

TEST(LentMemory, LentAndWaitingIsNeverMoreThanWasLentAtOnce) {
  const auto memory = LentMemory::create();
  auto first = lend(*memory, kSize);
  auto second = lend(*memory, 16_KiB);
  first.reset();
  second.reset();
  EXPECT_EQ(memory->waiting(), 24_KiB);
  // A size that was not lent before: what has waited longest makes room.
  auto other = lend(*memory, 4_KiB);
  EXPECT_EQ(memory->waiting(), 16_KiB);
  other.reset();
  EXPECT_EQ(memory->waiting(), 20_KiB);
  lend(*memory, 24_KiB);
  EXPECT_EQ(memory->waiting(), 24_KiB);
}

TEST(LentMemory, MayComeBackWhenEverythingElseIsGone) {
  auto memory = LentMemory::create();
  const auto lent = lend(*memory, kSize);
  memory.reset();
  lent->data()[0] = std::byte{1};
}

TEST(LentMemory, OfNothingIsNothing) {
  const auto memory = LentMemory::create();
  EXPECT_EQ(lend(*memory, Bytes(0))->size(), Bytes(0));
}

TEST(LentMemory, OfAForkedChildIsNotItsParents) {
  auto lent = lend(*LentMemory::of_process(), kSize);
  std::byte* const data = lent->data();
  lent.reset();
  const pid_t child = ::fork();
  if (child == 0) ::_exit(lend(*LentMemory::of_process(), kSize)->data() == data ? 1 : 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(lend(*LentMemory::of_process(), kSize)->data(), data);
}

}  // namespace
}  // namespace lockstep

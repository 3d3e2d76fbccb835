#include "comm/reduction/instruction_set.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::comm {
namespace {

constexpr InstructionSet kOfAnOldProcessor[] = {InstructionSet::plain, InstructionSet::avx2};

TEST(InstructionSet, TheBestOneIsChosenUnlessOneIsNamed) {
  EXPECT_EQ(choose_instruction_set(std::nullopt, kOfAnOldProcessor).value(), InstructionSet::avx2);
  EXPECT_EQ(choose_instruction_set("plain", kOfAnOldProcessor).value(), InstructionSet::plain);
}

TEST(InstructionSet, ANameThatTheProcessorLacksIsRefusedWithThoseThatItHas) {
  for (const auto* wanted : {"avx512", "sse9", ""}) {
    const auto chosen = choose_instruction_set(wanted, kOfAnOldProcessor);
    ASSERT_FALSE(chosen) << wanted;
    EXPECT_THAT(chosen.error().message, testing::HasSubstr("plain, avx2"));
  }
}

TEST(InstructionSet, EveryProcessorHasThePlainOneAndTheBestOneIsTheLast) {
  const auto there = instruction_sets();
  ASSERT_FALSE(there.empty());
  EXPECT_EQ(there.front(), InstructionSet::plain);
  EXPECT_TRUE(std::is_sorted(there.begin(), there.end()));
}

}  // namespace
}  // namespace lockstep::comm

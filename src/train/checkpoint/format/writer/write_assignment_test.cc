#include "train/checkpoint/format/writer/write_assignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "train/checkpoint/format/layouts_for_test.h"

namespace lockstep::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace layouts_for_test;

HeldPart bytes(const char* name, std::int64_t elements, std::int64_t begin, std::int64_t end) {
  return {name, DataType::uint8, {elements}, begin, end};
}

// "0:[0,2) 2:[2,4)": the writer of each interval.
std::string writers_of(const SavedTensor& tensor) {
  std::string words;
  for (const auto& slice : tensor.slices)
    words += format("{}{}:[{},{})", words.empty() ? "" : " ", slice.file, slice.begin, slice.end);
  return words;
}

TEST(WriteAssignment, ReplicasOfAShardWriteHalfOfItEach) {
  const auto division =
      assign_writes({{{0, 2}, {bytes("a", 8, 0, 4)}}, {{1, 3}, {bytes("a", 8, 4, 8)}}}, 4).value();
  EXPECT_EQ(writers_of(division.tensors[0]), "0:[0,2) 2:[2,4) 1:[4,6) 3:[6,8)");
}

TEST(WriteAssignment, ManySmallTensorsAreSharedEvenlyToo) {
  std::vector<HeldPart> small;
  const std::vector<std::string> names{"a", "b", "c", "d", "e", "f"};
  for (const auto& name : names) small.push_back(bytes(name.c_str(), 1, 0, 1));
  const auto division = assign_writes({{{0, 1, 2}, small}}, 3).value();
  std::vector<int> count(3);
  for (const auto& tensor : division.tensors)
    ++count[static_cast<std::size_t>(tensor.slices.at(0).file)];
  EXPECT_EQ(count, (std::vector{2, 2, 2}));
}

TEST(WriteAssignment, WhatOnlyOneRankHoldsItWrites) {
  const auto division =
      assign_writes({{{0, 1}, {bytes("a", 4, 0, 4)}}, {{1}, {bytes("b", 9, 0, 9)}}}, 2).value();
  EXPECT_EQ(writers_of(division.tensors[0]), "0:[0,2) 1:[2,4)");
  EXPECT_EQ(writers_of(division.tensors[1]), "1:[0,9)");
}

TEST(WriteAssignment, ACopyThatMayDifferIsTheLowestRanks) {
  auto counter = bytes("buffer", 6, 0, 6);
  counter.copies_equal = false;
  const auto division = assign_writes({{{1, 2, 3}, {counter}}}, 4).value();
  EXPECT_EQ(writers_of(division.tensors[0]), "1:[0,6)");
}

TEST(WriteAssignment, OverlapsOfAnyKindAreWrittenOnce) {
  Random random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<SharedParts> holders{{{0}, {bytes("a", 100, 0, 100)}}};
    for (int rank = 1; rank < 6; ++rank) {
      const auto begin = static_cast<std::int64_t>(random.below(101));
      const auto end =
          begin + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(101 - begin)));
      holders.push_back({{rank}, {bytes("a", 100, begin, end)}});
    }
    const auto division = assign_writes(holders, 6).value();
    std::int64_t covered = 0;
    for (const auto& slice : division.tensors[0].slices) {
      const auto& by = holders[static_cast<std::size_t>(slice.file)].parts[0];
      EXPECT_EQ(slice.begin, covered);
      EXPECT_LE(by.begin, slice.begin) << "round " << round;
      EXPECT_GE(by.end, slice.end) << "round " << round;
      covered = slice.end;
    }
    EXPECT_EQ(covered, 100);
  }
}

TEST(WriteAssignment, WhatNobodyHoldsIsNamed) {
  const auto division =
      assign_writes({{{0}, {bytes("a", 10, 0, 4)}}, {{1}, {bytes("a", 10, 6, 10)}}}, 2);
  ASSERT_FALSE(division);
  EXPECT_EQ(division.error().code, Code::invalid);
  EXPECT_THAT(division.error().message,
              AllOf(HasSubstr("no rank"), HasSubstr("elements 4 to 6 of a")));
}

TEST(WriteAssignment, RanksThatDisagreeAboutATensorAreRefused) {
  const auto division =
      assign_writes({{{0}, {bytes("a", 4, 0, 4)}}, {{1}, {bytes("a", 5, 0, 4)}}}, 2);
  ASSERT_FALSE(division);
  EXPECT_EQ(division.error().code, Code::invalid);
  EXPECT_THAT(division.error().message,
              AllOf(HasSubstr("uint8 of shape [4]"), HasSubstr("uint8 of shape [5]")));
  EXPECT_FALSE(assign_writes({{{0}, {bytes("a", 4, 0, 5)}}}, 1));
  EXPECT_FALSE(assign_writes({{{0}, {bytes("a", 4, -1, 4)}}}, 1));
}

}  // namespace
}  // namespace lockstep::train

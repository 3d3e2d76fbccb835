#include "map/discover/offered_gpus.h"

#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::map {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<NvidiaGpu> four_cards() {
  std::vector<NvidiaGpu> cards;
  for (int i = 0; i < 4; ++i) {
    const std::string digit = std::to_string(i);
    cards.push_back({.pci = "0000:0" + digit + ":00.0",
                     .minor = 3 - i,
                     .uuid = "GPU-a" + digit + "-77",
                     .number = i});
  }
  return cards;
}

std::vector<int> numbers(const OfferedGpus& offered) {
  std::vector<int> found;
  for (const NvidiaGpu& gpu : offered.gpus) found.push_back(gpu.number);
  return found;
}

std::vector<int> seen(const std::string& visible) {
  return numbers(offered_gpus(four_cards(), visible));
}

TEST(OfferedGpus, AllAreOfferedWhereTheVariableIsNotSet) {
  const auto offered = offered_gpus(four_cards(), std::nullopt);
  EXPECT_THAT(numbers(offered), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(offered.warnings, IsEmpty());
}

TEST(OfferedGpus, TheDaemonsVariableLimitsThem) {
  EXPECT_THAT(seen("1,3"), ElementsAre(1, 3));
  EXPECT_THAT(seen(" 3, 1 "), ElementsAre(1, 3));
  EXPECT_THAT(seen("GPU-a2-77,GPU-a0"), ElementsAre(0, 2));
  for (const auto* none : {"", " ", "NoDevFiles", "-1"}) {
    const auto offered = offered_gpus(four_cards(), none);
    EXPECT_THAT(offered.gpus, IsEmpty()) << none;
    EXPECT_THAT(offered.warnings, IsEmpty()) << none;
  }
}

TEST(OfferedGpus, TheListEndsBeforeAnEntryThatNamesNoCard) {
  for (const auto* list : {"0,9,1", "0,GPU-b,1", "0,GPU-a,1", "0,x,1", "0,1x", "0,MIG-1"}) {
    const auto offered = offered_gpus(four_cards(), list);
    EXPECT_THAT(numbers(offered), ElementsAre(0)) << list;
    EXPECT_THAT(offered.warnings, ElementsAre(HasSubstr(list))) << list;
  }
}

TEST(OfferedGpus, ACardInMigModeIsLeftOutWithWordsAndKeepsItsNumber) {
  auto cards = four_cards();
  cards[1].mig = true;
  const auto offered = offered_gpus(cards, std::nullopt);
  EXPECT_THAT(numbers(offered), ElementsAre(0, 2, 3));
  EXPECT_THAT(offered.warnings,
              ElementsAre(AllOf(HasSubstr("GPU 1 (GPU-a1-77) is in MIG mode and is left out"),
                                HasSubstr("`nvidia-smi -i GPU-a1-77 -mig 0`"))));
  EXPECT_THAT(offered_gpus(cards, "0,2").warnings, IsEmpty()) << "it would not be offered anyway";
}

}  // namespace
}  // namespace lockstep::map

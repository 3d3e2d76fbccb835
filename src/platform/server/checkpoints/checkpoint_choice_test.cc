#include "platform/server/checkpoints/checkpoint_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

api::HostCheckpoint checkpoint_of(std::int64_t step, std::vector<std::string> missing = {},
                                  std::string manifest = "m", std::int64_t epoch = 1) {
  return {.step = step,
          .epoch = epoch,
          .manifest = std::move(manifest),
          .files = {{"manifest.json", 10}, {"rank-0000.bin", 100}, {"rank-0001.bin", 100}},
          .missing = std::move(missing)};
}

TEST(CheckpointChoice, IsTheNewestOfWhichEachFileIsOnAHost) {
  const HostLists known{
      .lists = {{"a", {checkpoint_of(100), checkpoint_of(200, {"rank-0001.bin"})}},
                {"b", {checkpoint_of(200, {"rank-0000.bin"})}}},
      .reported = 200};
  const auto choice = choose_checkpoint(known);
  ASSERT_TRUE(choice) << choice.error().message;
  EXPECT_EQ(choice->checkpoint.step, 200);
  EXPECT_EQ(choice->checkpoint.note, "");
  EXPECT_THAT(choice->hosts.at("rank-0000.bin"), ElementsAre("a"));
  EXPECT_THAT(choice->hosts.at("rank-0001.bin"), ElementsAre("b"));
  EXPECT_THAT(choice->hosts.at("manifest.json"), ElementsAre("a", "b"));
}

TEST(CheckpointChoice, IsAnEarlierOneIfAHostWithFilesIsGoneAndSaysSo) {
  const HostLists known{
      .lists = {{"a", {checkpoint_of(100), checkpoint_of(200, {"rank-0001.bin"})}}},
      .silent = {{"b", "it has not called"}}};
  const auto choice = choose_checkpoint(known).value();
  EXPECT_EQ(choice.checkpoint.step, 100);
  EXPECT_THAT(choice.checkpoint.note, AllOf(HasSubstr("step 100"), HasSubstr("step 200"),
                                            HasSubstr("b: it has not called")));
}

TEST(CheckpointChoice, ADamagedFileCountsOnlyWhereAnotherHostHasIt) {
  HostLists known{
      .lists = {{"a", {checkpoint_of(100), checkpoint_of(200)}}, {"b", {checkpoint_of(200)}}},
      .damaged = {{200, "m", "rank-0001.bin", "a"}}};
  const auto other = choose_checkpoint(known).value();
  EXPECT_EQ(other.checkpoint.step, 200);
  EXPECT_THAT(other.hosts.at("rank-0001.bin"), ElementsAre("b"));
  known.damaged.insert({200, "m", "rank-0001.bin", "b"});
  const auto earlier = choose_checkpoint(known).value();
  EXPECT_EQ(earlier.checkpoint.step, 100);
  EXPECT_THAT(earlier.checkpoint.note,
              AllOf(HasSubstr("goes on from the checkpoint of step 100"),
                    HasSubstr("rank-0001.bin is damaged on host a"), HasSubstr("on host b")));
  known.lists["c"] = {checkpoint_of(200, {}, "another save")};
  EXPECT_EQ(choose_checkpoint(known).value().checkpoint.manifest, "another save");
}

TEST(CheckpointChoice, FilesOfTwoAttemptsAreNotMixed) {
  const HostLists known{.lists = {{"a", {checkpoint_of(200, {"rank-0001.bin"}, "one")}},
                                  {"b", {checkpoint_of(200, {"rank-0000.bin"}, "two", 2)}}}};
  const auto choice = choose_checkpoint(known);
  ASSERT_FALSE(choice);
  EXPECT_EQ(choice.error().code, Code::peer_lost);
}

TEST(CheckpointChoice, NothingIsThereForARunThatHasSavedNothing) {
  EXPECT_EQ(choose_checkpoint({.lists = {{"a", {}}}}).value().checkpoint, api::NodeCheckpoint{});
}

TEST(CheckpointChoice, ATrainingDoesNotBeginFromNothingIfItsCheckpointsAreAway) {
  const auto choice =
      choose_checkpoint({.lists = {{"b", {}}}, .silent = {{"a", "gone"}}, .reported = 300});
  ASSERT_FALSE(choice);
  EXPECT_THAT(choice.error().message,
              AllOf(HasSubstr("step 300"), HasSubstr("a: gone"), HasSubstr("lockstep resume")));
}

}  // namespace
}  // namespace lockstep::server

#include "comm/flight/diagnosis/straggler.h"

#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.h"
#include "comm/flight/diagnosis/logs_for_test.h"

namespace lockstep::comm {
namespace {

using testing::IsEmpty;
using testing::SizeIs;
using testing_flight::done;
using testing_flight::group_of;
using testing_flight::milliseconds;

constexpr int kMeetings = 100;
constexpr int kPeriod = 100;  // milliseconds from one collective to the next
constexpr int kTransfer = 2;  // from the last entry to all ranks' end

// The delay in milliseconds with which a rank enters a collective.
using Lateness = std::function<int(int meeting, int rank)>;

std::vector<FlightLog> logs_of(int ranks, const Lateness& late, const std::string& name) {
  std::vector<FlightLog> logs;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<FlightOperation> operations;
    for (int meeting = 0; meeting < kMeetings; ++meeting) {
      int last = 0;
      for (int each = 0; each < ranks; ++each) last = std::max(last, late(meeting, each));
      const int entered = late(meeting, rank);
      operations.push_back(done(testing_flight::call(static_cast<std::uint64_t>(meeting + 1), name),
                                milliseconds(kPeriod * meeting + entered),
                                milliseconds(last - entered + kTransfer)));
    }
    logs.push_back(testing_flight::rank(rank, std::move(operations)));
    logs.back().size = ranks;
    logs.back().members = GroupRanks::world(ranks).ranks;
    logs.back().host = rank < 4 ? "a" : "b";
  }
  return logs;
}

FlightGroup group_with(int ranks, const Lateness& late, const std::string& name = "all_reduce") {
  return group_of(logs_of(ranks, late, name));
}

// Rank 5 is late in four of five collectives, and another rank a little in the fifth.
int rank_5_is_late(int meeting, int rank) {
  if (meeting % 5 == 4) return rank == 0 ? 1 : 0;
  return rank == 5 ? 31 : 0;
}

TEST(Stragglers, TheRankThatTheOthersWaitForIsNamedWithItsHostAndWhatItCosts) {
  const auto found = find_stragglers(group_with(8, rank_5_is_late));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(text(found[0]),
            "rank 5 on host b entered 80 % of the last 100 collectives of world last, 31ms behind "
            "the others in the median: they waited 25 % of the time for it");
}

// Rank 0 is 20 ms behind in the median, and last in one collective of three.
TEST(Stragglers, AreNotNamedForBeingLastAboutAsOftenAsByChance) {
  const auto late = [](int meeting, int rank) {
    if (rank == 0) return 20;
    return meeting % 3 == 0 ? 0 : rank == 1 ? 21 : 0;
  };
  EXPECT_THAT(find_stragglers(group_with(4, late)), testing::Not(IsEmpty()));
  const auto strict = find_stragglers(group_with(4, late), {.last_ratio_min = 2});
  for (const Straggler& one : strict) EXPECT_NE(one.rank, 0) << text(one);
}

TEST(Stragglers, AreFoundThoughTheHostsClocksDiffer) {
  auto logs = logs_of(8, rank_5_is_late, "all_reduce");
  for (FlightLog& log : logs)
    if (log.host == "b")
      for (FlightOperation& operation : log.operations) {
        *operation.started -= std::chrono::seconds(3);
        *operation.ended -= std::chrono::seconds(3);
      }
  const auto found = find_stragglers(group_of(std::move(logs)));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].rank, 5);
  EXPECT_EQ(found[0].median_lag, milliseconds(31));
}

TEST(Stragglers, OfTwoRanksTheLateOneIsNamed) {
  const auto found =
      find_stragglers(group_with(2, [](int, int rank) { return rank == 1 ? 12 : 0; }));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].rank, 1);
  EXPECT_EQ(found[0].last_share, 1);
}

TEST(Stragglers, AllRanksOfASlowHostAreNamed) {
  const auto found =
      find_stragglers(group_with(7, [](int, int rank) { return rank >= 4 ? 20 : 0; }));
  ASSERT_THAT(found, SizeIs(3));
  for (const Straggler& one : found) EXPECT_EQ(one.host, "b");
}

TEST(Stragglers, RanksThatAreLateByTurnsAreNone) {
  EXPECT_THAT(find_stragglers(group_with(
                  4, [](int meeting, int rank) { return meeting % 4 == rank ? 30 : 0; })),
              IsEmpty());
}

TEST(Stragglers, WhatCostsLittleIsNotTold) {
  EXPECT_THAT(find_stragglers(group_with(4, [](int, int rank) { return rank == 1 ? 4 : 0; })),
              IsEmpty());
}

TEST(Stragglers, NothingIsSaidOfTooFewCollectivesOrWithoutEveryRanksRecord) {
  const auto late = [](int, int rank) { return rank == 1 ? 50 : 0; };
  EXPECT_THAT(find_stragglers(group_with(4, late), {.collectives_min = 101}), IsEmpty());
  auto logs = logs_of(4, late, "all_reduce");
  logs.erase(logs.begin() + 2);
  EXPECT_THAT(find_stragglers(group_of(std::move(logs))), IsEmpty());
}

TEST(Stragglers, OnlyWhatNobodyCanEndBeforeAllHaveEnteredCounts) {
  const auto late = [](int, int rank) { return rank == 1 ? 50 : 0; };
  EXPECT_THAT(find_stragglers(group_with(4, late, "broadcast")), IsEmpty());
  EXPECT_THAT(find_stragglers(group_with(4, late, "barrier")), SizeIs(1));
}

TEST(Stragglers, OfSeveralGroupsTheCostliestFindingOfARankIsTold) {
  auto world = logs_of(2, [](int, int rank) { return rank == 1 ? 10 : 0; }, "all_reduce");
  auto shard = logs_of(2, [](int, int rank) { return rank == 0 ? 40 : 0; }, "all_gather");
  for (FlightLog& log : shard) {
    log.group = log.name = "shard";
    log.members = {1, 0};
    log.rank = 1 - log.rank;
  }
  const auto found = find_stragglers({group_of(std::move(world)), group_of(std::move(shard))},
                                     StragglerThresholds());
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].rank, 1);
  EXPECT_EQ(found[0].group, "shard");
}

}  // namespace
}  // namespace lockstep::comm

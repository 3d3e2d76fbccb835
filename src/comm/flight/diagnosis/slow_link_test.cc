#include "comm/flight/diagnosis/slow_link.h"

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

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

constexpr int kCollectives = 64;
constexpr int kLasts = 100;  // milliseconds; each begins when the previous has ended

// The time that a rank of a ring waited for the next to receive data, and for the previous to send
// data.
struct RingWaits {
  milliseconds to_take{0};
  milliseconds to_send{0};
};

// Eight ranks in a ring, four on a host.
std::vector<FlightLog> ring(const std::function<RingWaits(int rank)>& waits_of) {
  constexpr int kRing = 8;
  std::vector<FlightLog> logs;
  for (int rank = 0; rank < kRing; ++rank) {
    std::vector<FlightOperation> operations;
    for (int i = 0; i < kCollectives; ++i) {
      const auto number = static_cast<std::uint64_t>(i + 1);
      auto call = done(testing_flight::call(number, "all_reduce"), milliseconds(kLasts * i),
                       milliseconds(kLasts));
      const auto waits = waits_of(rank);
      if (waits.to_take.count() > 0) call.longest_send_wait = {(rank + 1) % kRing, waits.to_take};
      if (waits.to_send.count() > 0)
        call.longest_receive_wait = {(rank + kRing - 1) % kRing, waits.to_send};
      operations.push_back(std::move(call));
    }
    logs.push_back(testing_flight::rank(rank, std::move(operations)));
    logs.back().size = kRing;
    logs.back().members = GroupRanks::world(kRing).ranks;
    logs.back().host = rank < 4 ? "a" : "b";
  }
  return logs;
}

TEST(SlowLinks, TheLinkInFrontOfWhichDataPileUpIsNamedThoughAllWait) {
  const auto found = find_slow_links(group_of(ring(
      [](int rank) { return RingWaits{milliseconds(rank == 3 ? 80 : 0), milliseconds(70)}; })));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(
      text(found[0]),
      "the link from rank 3 on host a to rank 4 on host b is slow: both waited for it 70 % of "
      "the time of the last 64 collectives of world, for links like it 0 %");
}

TEST(SlowLinks, ALongTransferIsNone) {
  EXPECT_THAT(find_slow_links(group_of(
                  ring([](int) { return RingWaits{milliseconds(40), milliseconds(40)}; }))),
              IsEmpty());
}

// Rank 3 is slow to send, and waits for no rank itself.
TEST(SlowLinks, ALateRankIsNone) {
  EXPECT_THAT(find_slow_links(group_of(ring([](int rank) {
                return RingWaits{milliseconds(0), milliseconds(rank == 3 ? 0 : 60)};
              }))),
              IsEmpty());
}

// Those between hosts, 3 to 4 and 7 to 0, are slower than those within.
TEST(SlowLinks, LinksBetweenHostsAreComparedWithTheirLikes) {
  const auto of_both = [](int slower) {
    return [slower](int rank) {
      const bool between = rank == 3 || rank == 7;
      const int to_take = rank == slower ? 90 : between ? 25 : 1;
      return RingWaits{milliseconds(to_take), milliseconds(95)};
    };
  };
  EXPECT_THAT(find_slow_links(group_of(ring(of_both(-1)))), IsEmpty());
  const auto found = find_slow_links(group_of(ring(of_both(7))));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].from.rank, 7);
  EXPECT_EQ(found[0].to.rank, 0);
}

// A rank whose outgoing link is slow acknowledges late.
TEST(SlowLinks, OfSeveralTheCostliestIsNamed) {
  const auto found = find_slow_links(group_of(ring([](int rank) {
    const int to_take = rank == 1 ? 84 : rank == 0 ? 68 : 0;
    return RingWaits{milliseconds(to_take), milliseconds(85)};
  })));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].from.rank, 1);
}

TEST(SlowLinks, RanksAreCalledByTheirNumbersInTheRun) {
  auto logs =
      ring([](int rank) { return RingWaits{milliseconds(rank == 1 ? 50 : 0), milliseconds(50)}; });
  for (FlightLog& log : logs) {
    log.rank += 10;
    for (int& member : log.members) member += 10;
    for (FlightOperation& call : log.operations) {
      if (call.longest_send_wait) call.longest_send_wait->peer += 10;
      if (call.longest_receive_wait) call.longest_receive_wait->peer += 10;
    }
  }
  const auto found = find_slow_links(group_of(std::move(logs)));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].from.rank, 11);
  EXPECT_EQ(found[0].to.rank, 12);
}

TEST(SlowLinks, NothingIsSaidOfWhatCostsLittleOfTooFewCollectivesOrWithoutEveryRecord) {
  const auto slow = [](int rank) {
    return RingWaits{milliseconds(rank == 3 ? 80 : 0), milliseconds(70)};
  };
  EXPECT_THAT(find_slow_links(group_of(ring([](int rank) {
                return RingWaits{milliseconds(rank == 3 ? 4 : 0), milliseconds(4)};
              }))),
              IsEmpty());
  EXPECT_THAT(find_slow_links(group_of(ring(slow)), {.collectives_min = kCollectives + 1}),
              IsEmpty());
  auto logs = ring(slow);
  logs.pop_back();
  EXPECT_THAT(find_slow_links(group_of(std::move(logs))), IsEmpty());
}

}  // namespace
}  // namespace lockstep::comm

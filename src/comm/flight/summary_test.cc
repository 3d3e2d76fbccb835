#include "comm/flight/summary.h"

#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/flight/log.h"

namespace lockstep::comm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::string_view kOperations[] = {"barrier", "recv"};

class FlightBrief : public testing::Test {
 protected:
  FlightTicket collective(std::uint64_t sequence) {
    return recorder.record_started({.sequence = sequence, .bytes = 8});
  }
  FlightTicket recv(int tag) {
    return recorder.record_started({.bytes = 8, .root = tag, .peer = kAnyPeer, .operation = 1});
  }
  FlightLog brief() const {
    const auto bytes = summarize_flight_record(recorder.snapshot());
    EXPECT_LE(bytes.size(), kSummaryBytes);
    auto log = parse_flight(bytes);
    EXPECT_TRUE(log) << log.error().message;
    return *std::move(log);
  }
  static std::vector<std::uint64_t> sequences(const FlightLog& log) {
    std::vector<std::uint64_t> all;
    for (const auto& operation : log.operations)
      if (operation.is_collective()) all.push_back(operation.sequence);
    return all;
  }
  static std::vector<int> tags(const FlightLog& log) {
    std::vector<int> all;
    for (const auto& operation : log.operations)
      if (!operation.is_collective()) all.push_back(*operation.root);
    return all;
  }

  FlightRecorder recorder{{1, GroupRanks::world(4), "world", "host-a"}, {kOperations, {}, {}}};
};

TEST_F(FlightBrief, HasTheNewestCollectivesInTheirOrder) {
  for (std::uint64_t i = 1; i <= 5000; ++i) recorder.mark_ended(collective(i), true, 8);
  (void)collective(5001);
  const auto log = brief();
  EXPECT_EQ(log.rank, 1);
  EXPECT_EQ(log.group, "world");
  ASSERT_EQ(sequences(log).size(), kSummaryCollectives);
  EXPECT_EQ(sequences(log).front(), 5002 - kSummaryCollectives);
  EXPECT_TRUE(log.operations.back().under_way());
}

TEST_F(FlightBrief, HasTheOldestExchangesUnderWayAndTheNewestThatEnded) {
  for (int tag = 0; tag < 100; ++tag) {
    const auto ticket = recv(tag);
    if (tag % 2 == 0) recorder.mark_ended(ticket, true, 8);
  }
  const auto log = brief();
  EXPECT_THAT(tags(log), ElementsAre(1, 3, 5, 7, 9, 11, 13, 15, 96, 98));
  EXPECT_EQ(log.operations.front().peer, kAnyPeer);
}

TEST_F(FlightBrief, OfNothingIsARecordOfNothing) { EXPECT_THAT(brief().operations, IsEmpty()); }

}  // namespace
}  // namespace lockstep::comm

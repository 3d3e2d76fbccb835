// Packing the flight records of ranks for the daemon.
#include "platform/agent/link/flight_packing.h"

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/format.h"
#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"
#include "comm/flight/log.h"
#include "comm/flight/memory.h"
#include "comm/flight/recorder.h"
#include "net/base64.h"
#include "platform/agent/agent_for_test.h"

namespace lockstep::agent {
namespace {

constexpr std::string_view kBarrierOnly[] = {"barrier"};

// Records like a rank with this number that has another number in a group of two.
class RecordingRank {
 public:
  RecordingRank(const std::filesystem::path& folder, int started_as, std::string group) {
    ::setenv(comm::kFlightFolderVariable, folder.c_str(), 1);
    ::setenv("RANK", std::to_string(started_as).c_str(), 1);
    recorder_ = std::make_unique<comm::FlightRecorder>(
        comm::FlightIdentity{started_as % 2, comm::GroupRanks::world(2), std::move(group),
                             "host-a"},
        comm::FlightNames{kBarrierOnly, {}, {}});
    ::unsetenv("RANK");
    ::unsetenv(comm::kFlightFolderVariable);
  }
  void meet(int calls) {
    for (int i = 0; i < calls; ++i)
      recorder_->mark_ended(recorder_->record_started({.sequence = ++sequence_}), true, 0);
  }
  void enter() { (void)recorder_->record_started({.sequence = ++sequence_}); }

 private:
  std::unique_ptr<comm::FlightRecorder> recorder_;
  std::uint64_t sequence_ = 0;
};

std::vector<comm::FlightLog> unpacked(const api::FlightDelivery& delivery) {
  std::vector<comm::FlightLog> logs;
  for (const auto& record : delivery.records) {
    const auto bytes = net::from_base64(record.bytes);
    EXPECT_TRUE(bytes);
    auto log = comm::parse_flight(bytes.value_or(std::vector<std::byte>()));
    EXPECT_TRUE(log) << log.error().message;
    if (log) logs.push_back(*std::move(log));
  }
  return logs;
}

class FlightParcel : public testing::Test {
 protected:
  const TemporaryFolder folder_;
};

TEST_F(FlightParcel, HasAllThatWasRecordedWhereThereIsRoom) {
  RecordingRank first(folder_, 0, "world"), second(folder_, 1, "world");
  first.meet(300);
  second.meet(299);
  first.enter();
  ASSERT_TRUE(write_file(folder_ / "rank-2.world.flight", "half a record"));
  const auto delivery = pack_flight_records({.folder = folder_});
  const auto logs = unpacked(delivery);
  ASSERT_EQ(logs.size(), 2u);
  EXPECT_EQ(logs[0].operations.size(), 301u);
  EXPECT_EQ(logs[0].operations.back().state, comm::FlightState::started);
  EXPECT_EQ(logs[1].operations.size(), 299u);
  EXPECT_EQ(logs[1].host, "host-a");
  EXPECT_EQ(delivery.left_out, 0);
  EXPECT_FALSE(delivery.records[0].ended);
}

TEST_F(FlightParcel, WhereThereIsNotItHasWhatSomebodyMayWaitForAndTheNewest) {
  RecordingRank rank(folder_, 0, "world");
  rank.meet(10);
  rank.enter();
  rank.meet(300);
  const auto logs = unpacked(pack_flight_records({.folder = folder_}, 4096 + 20 * 144));
  ASSERT_EQ(logs.size(), 1u);
  ASSERT_EQ(logs[0].operations.size(), 20u);
  EXPECT_EQ(logs[0].operations.front().sequence, 11u);
  EXPECT_EQ(logs[0].operations[1].sequence, 293u);
  EXPECT_EQ(logs[0].operations.back().sequence, 311u);
}

TEST_F(FlightParcel, OfTooManyRecordsSomeAreLeftOutAndCounted) {
  std::vector<std::unique_ptr<RecordingRank>> ranks;
  for (int i = 0; i < 5; ++i) {
    ranks.push_back(std::make_unique<RecordingRank>(folder_, 0, format("group-{}", i)));
    ranks.back()->meet(100);
  }
  const auto delivery = pack_flight_records({.folder = folder_}, 3 * (4096 + 20 * 144));
  EXPECT_EQ(delivery.records.size(), 3u);
  EXPECT_EQ(delivery.left_out, 2);
  for (const auto& log : unpacked(delivery)) EXPECT_EQ(log.operations.size(), 20u);
}

TEST_F(FlightParcel, OfAFolderOfAllNodesItHasTheNodesOwnRanksOfThisRun) {
  RecordingRank before(folder_, 2, "earlier");
  const Time since = SystemClock().now();
  RecordingRank other(folder_, 1, "world"), own(folder_, 2, "world"), next(folder_, 4, "all");
  const auto delivery = pack_flight_records(
      {.folder = folder_, .is_shared = true, .first_rank = 2, .ranks = 2, .since = since});
  const auto logs = unpacked(delivery);
  ASSERT_EQ(logs.size(), 1u);
  EXPECT_EQ(logs[0].launch_rank, 2);
  EXPECT_EQ(logs[0].group, "world");
}

TEST_F(FlightParcel, WithoutRecordsItIsEmpty) {
  EXPECT_EQ(pack_flight_records({.folder = folder_ / "none"}), api::FlightDelivery());
}

TEST_F(AgentTest, TheRecordsOfItsRanksComeWhenTheDaemonWantsThem) {
  shell("while [ ! -e go ]; do sleep 0.05; done");
  start();
  ASSERT_TRUE(eventually([&] { return daemon_.last().state == model::NodeState::running; }));
  RecordingRank rank(root_ / "node/flight", 0, "world");
  rank.meet(5);
  daemon_.want_flight();
  ASSERT_TRUE(eventually([&] { return daemon_.flight().has_value(); }));
  ASSERT_EQ(unpacked(*daemon_.flight()).size(), 1u);
  EXPECT_EQ(unpacked(*daemon_.flight())[0].operations.size(), 5u);
  rank.meet(5);
  daemon_.want_flight();
  ASSERT_TRUE(eventually([&] { return daemon_.flight().has_value(); }));
  EXPECT_EQ(unpacked(*daemon_.flight())[0].operations.size(), 10u);
  ASSERT_TRUE(write_file(root_ / "go", ""));
  EXPECT_EQ(finish(), 0);
}

TEST_F(AgentTest, ItDoesNotLeaveBeforeItHasDeliveredWhatIsWanted) {
  shell("true");
  daemon_.want_flight_at_end();
  start();
  EXPECT_EQ(finish(), 0);
  EXPECT_EQ(daemon_.flight(), api::FlightDelivery());
}

}  // namespace
}  // namespace lockstep::agent

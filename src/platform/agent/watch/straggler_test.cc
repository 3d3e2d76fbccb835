// Stragglers that an agent finds in the records of its ranks.
#include "comm/flight/diagnosis/straggler.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"
#include "comm/flight/log.h"
#include "comm/flight/memory.h"
#include "comm/flight/recorder.h"
#include "platform/agent/agent_for_test.h"
#include "platform/agent/watch/straggler_watch.h"

namespace lockstep::agent {
namespace {

constexpr std::string_view kOneOperation[] = {"all_reduce"};
constexpr int kCalls = 40;
constexpr auto kLag = std::chrono::milliseconds(8);

// Two ranks that record as in one process; one of them is always late.
class TwoRanks {
 public:
  explicit TwoRanks(const std::filesystem::path& folder) {
    ::setenv(comm::kFlightFolderVariable, folder.c_str(), 1);
    for (int rank = 0; rank < 2; ++rank)
      recorders_.push_back(std::make_unique<comm::FlightRecorder>(
          comm::FlightIdentity{rank, comm::GroupRanks::world(2), "world", rank == 0 ? "a" : "b"},
          comm::FlightNames{kOneOperation, {}, {}}));
    ::unsetenv(comm::kFlightFolderVariable);
  }

  comm::FlightRecorder& recorder(std::size_t rank) { return *recorders_[rank]; }

  void meet(int late_rank) {
    for (int i = 0; i < kCalls; ++i) {
      const comm::FlightCall call{.sequence = ++sequence_};
      const auto first = recorders_[static_cast<std::size_t>(1 - late_rank)]->record_started(call);
      const auto later = std::chrono::steady_clock::now() + kLag;
      while (std::chrono::steady_clock::now() < later) std::this_thread::yield();
      const auto last = recorders_[static_cast<std::size_t>(late_rank)]->record_started(call);
      recorders_[static_cast<std::size_t>(1 - late_rank)]->mark_ended(first, true, 0);
      recorders_[static_cast<std::size_t>(late_rank)]->mark_ended(last, true, 0);
    }
  }

 private:
  std::vector<std::unique_ptr<comm::FlightRecorder>> recorders_;
  std::uint64_t sequence_ = 0;
};

TEST_F(AgentTest, ARankThatTheOthersWaitForIsAmongTheRunsEvents) {
  launch_.devices = {0, 1};
  launch_.world_size = 2;
  launch_.straggler_check_interval = std::chrono::milliseconds(20);
  ASSERT_TRUE(make_folders(root_ / "node/flight"));
  TwoRanks ranks(root_ / "node/flight");
  ranks.meet(/*late_rank=*/1);
  shell("while [ ! -e go ]; do sleep 0.05; done");
  start();
  ASSERT_TRUE(eventually([&] { return !daemon_.events().empty(); }));
  EXPECT_TRUE(daemon_.events()[0].starts_with(
      "rank 1 on host b entered 100 % of the last 40 collectives of world last, "))
      << daemon_.events()[0];
  // The next scan finds the same; then the other rank is late.
  for (int i = 0; i < 13; ++i) ranks.meet(/*late_rank=*/0);
  ASSERT_TRUE(eventually([&] { return daemon_.events().size() == 2; }));
  EXPECT_TRUE(daemon_.events()[1].starts_with("rank 0 on host a entered "));
  ASSERT_TRUE(write_file(root_ / "go", ""));
  ASSERT_EQ(finish(), 0);
  EXPECT_EQ(daemon_.events().size(), 2u);
}

// Rank 0 cannot send its data, and rank 1 does not receive it; the way back is free.
void wait_for_the_link(comm::FlightRecorder& sender, comm::FlightRecorder& receiver,
                       std::uint64_t sequence) {
  const auto sends = sender.record_started({.sequence = sequence});
  const auto receives = receiver.record_started({.sequence = sequence});
  sender.mark_waiting(sends, 1, comm::WaitReason::receive_data, 0);
  receiver.mark_waiting(receives, 0, comm::WaitReason::send_data, 0);
  const auto later = std::chrono::steady_clock::now() + kLag;
  while (std::chrono::steady_clock::now() < later) std::this_thread::yield();
  sender.mark_resumed(sends);
  receiver.mark_resumed(receives);
  sender.mark_waiting(sends, 1, comm::WaitReason::send_data, 0);
  sender.mark_resumed(sends);
  sender.mark_ended(sends, true, 0);
  receiver.mark_ended(receives, true, 0);
}

TEST(StragglerWatch, ASlowLinkIsToldOnce) {
  const TemporaryFolder folder;
  TwoRanks ranks(folder);
  for (std::uint64_t i = 1; i <= kCalls; ++i)
    wait_for_the_link(ranks.recorder(0), ranks.recorder(1), i);
  StragglerWatch watch({folder}, Duration(0));
  std::vector<StragglerWatch::Finding> found;
  for (int turns = 0; turns < 6; ++turns)  // three scans of two records
    for (auto& one : watch.poll()) found.push_back(std::move(one));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].rank, 0);
  EXPECT_TRUE(found[0].message.starts_with(
      "the link from rank 0 on host a to rank 1 on host b is slow: both waited for it "))
      << found[0].message;
}

TEST(StragglerWatch, AScanOfThousandsOfRanksFitsInMemoryAndOneOfAHostIsWhole) {
  const comm::StragglerThresholds thresholds;
  EXPECT_LT(8'000 * operations_kept(8'000) * sizeof(comm::FlightOperation), 256u << 20);
  EXPECT_GE(operations_kept(8'000), thresholds.collectives_min);
  EXPECT_GE(operations_kept(64), 4'096u) << "a record has no more";
}

TEST(StragglerWatch, WithoutRecordsNothingIsTold) {
  StragglerWatch watch({"/nonexistent/flight"}, Duration(0));
  EXPECT_TRUE(watch.poll().empty());
  EXPECT_TRUE(watch.poll().empty());
}

}  // namespace
}  // namespace lockstep::agent

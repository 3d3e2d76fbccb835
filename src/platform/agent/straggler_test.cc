// Stragglers as an agent finds them: by the records that its ranks write.
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "base/files.h"
#include "comm/flight/memory.h"
#include "comm/flight/recorder.h"
#include "platform/agent/agent_for_test.h"
#include "platform/agent/straggler_watch.h"

namespace lockstep {
namespace {

constexpr std::string_view kOneOperation[] = {"all_reduce"};
constexpr int kCalls = 40;
constexpr auto kLag = std::chrono::milliseconds(3);

// Two ranks that record as they would in one process, of which one is always late.
class TwoRanks {
 public:
  explicit TwoRanks(const std::filesystem::path& folder) {
    ::setenv(kFlightFolder, folder.c_str(), 1);
    for (int rank = 0; rank < 2; ++rank)
      recorders_.push_back(
          std::make_unique<FlightRecorder>(FlightIdentity{rank, 2, "world", rank == 0 ? "a" : "b"},
                                           FlightNames{kOneOperation, {}, {}}));
    ::unsetenv(kFlightFolder);
  }

  void meet(int late_rank) {
    for (int i = 0; i < kCalls; ++i) {
      const FlightCall call{.sequence = ++sequence_};
      const auto first = recorders_[static_cast<std::size_t>(1 - late_rank)]->start(call);
      const auto later = std::chrono::steady_clock::now() + kLag;
      while (std::chrono::steady_clock::now() < later) std::this_thread::yield();
      const auto last = recorders_[static_cast<std::size_t>(late_rank)]->start(call);
      recorders_[static_cast<std::size_t>(1 - late_rank)]->ended(first, true, 0);
      recorders_[static_cast<std::size_t>(late_rank)]->ended(last, true, 0);
    }
  }

 private:
  std::vector<std::unique_ptr<FlightRecorder>> recorders_;
  std::uint64_t sequence_ = 0;
};

TEST_F(AgentTest, ARankThatTheOthersWaitForIsAmongTheRunsEvents) {
  launch_.devices = {0, 1};
  launch_.world_size = 2;
  launch_.flight_look = std::chrono::milliseconds(20);
  ASSERT_TRUE(make_folders(root_ / "node/flight"));
  TwoRanks ranks(root_ / "node/flight");
  ranks.meet(/*late_rank=*/1);
  shell("while [ ! -e go ]; do sleep 0.05; done");
  start();
  ASSERT_TRUE(eventually([&] { return !daemon_.events().empty(); }));
  EXPECT_TRUE(daemon_.events()[0].starts_with(
      "rank 1 on host b entered 100 % of the last 40 collectives of world last, "))
      << daemon_.events()[0];
  // Looked at again, it is the same; then the other one is late.
  for (int i = 0; i < 13; ++i) ranks.meet(/*late_rank=*/0);
  ASSERT_TRUE(eventually([&] { return daemon_.events().size() == 2; }));
  EXPECT_TRUE(daemon_.events()[1].starts_with("rank 0 on host a entered "));
  ASSERT_TRUE(write_file(root_ / "go", ""));
  ASSERT_EQ(finish(), 0);
  EXPECT_EQ(daemon_.events().size(), 2u);
}

TEST(StragglerWatch, WithoutRecordsNothingIsTold) {
  StragglerWatch watch({"/nonexistent/flight"}, Duration(0));
  EXPECT_TRUE(watch.turn().empty());
  EXPECT_TRUE(watch.turn().empty());
}

}  // namespace
}  // namespace lockstep

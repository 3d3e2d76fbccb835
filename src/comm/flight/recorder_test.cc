#include "comm/flight/recorder.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/format.h"
#include "base/log.h"
#include "base/temporary_folder_for_test.h"
#include "comm/flight/label.h"
#include "comm/flight/log.h"
#include "comm/flight/ticks.h"

namespace lockstep::comm {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::string_view kThreeOperations[] = {"all_reduce", "broadcast", "recv"};
constexpr std::string_view kTypes[] = {"float32", "bfloat16"};
constexpr std::string_view kReductions[] = {"sum", "max"};

FlightIdentity rank_of_world(int rank) { return {rank, GroupRanks::world(4), "world", "host-a"}; }

FlightRecorder recorder_of(int rank = 2) {
  return {rank_of_world(rank), {kThreeOperations, kTypes, kReductions}};
}

FlightCall call_number(std::uint64_t sequence) {
  return {.sequence = sequence, .bytes = 4096, .type = 1, .reduction = 0};
}

FlightLog log_of(const FlightRecorder& recorder) {
  auto log = parse_flight(recorder.snapshot());
  EXPECT_TRUE(log) << log.error().message;
  return *std::move(log);
}

FlightOperation only_operation(const FlightRecorder& recorder) {
  auto log = log_of(recorder);
  EXPECT_THAT(log.operations, SizeIs(1));
  return log.operations.at(0);
}

FlightTime now() { return std::chrono::system_clock::now(); }

// A folder for this test; LOCKSTEP_FLIGHT_DIR names it during its lifetime.
class FolderForTest {
 public:
  FolderForTest() { ::setenv(kFlightFolderVariable, path().c_str(), 1); }
  ~FolderForTest() { ::unsetenv(kFlightFolderVariable); }
  const fs::path& path() const { return folder_.path(); }
  FlightLog log(int rank = 2) const {
    auto log = read_flight_file(folder_ / flight_file_name(rank, "world"));
    EXPECT_TRUE(log) << log.error().message;
    return *std::move(log);
  }

 private:
  const TemporaryFolder folder_;
};

TEST(FlightRecorder, TellsAnOperationAsItWas) {
  auto recorder = recorder_of();
  const auto before = now() - std::chrono::milliseconds(5);
  const auto ticket = recorder.record_started(call_number(17));
  recorder.mark_ended(ticket, true, 12288);
  const auto log = log_of(recorder);
  EXPECT_EQ(log.rank, 2);
  EXPECT_EQ(log.size, 4);
  EXPECT_EQ(log.group, "world");
  EXPECT_EQ(log.host, "host-a");
  EXPECT_EQ(log.pid, ::getpid());
  const auto operation = only_operation(recorder);
  EXPECT_EQ(operation.sequence, 17u);
  EXPECT_EQ(operation.state, FlightState::done);
  EXPECT_EQ(operation.name, "all_reduce");
  EXPECT_EQ(operation.type, "bfloat16");
  EXPECT_EQ(operation.reduction, "sum");
  EXPECT_EQ(operation.bytes, 4_KiB);
  EXPECT_EQ(operation.received, 12_KiB);
  EXPECT_EQ(operation.root, std::nullopt);
  EXPECT_TRUE(operation.is_collective());
  EXPECT_GE(operation.started, before);
  EXPECT_GE(operation.ended, operation.started);
  EXPECT_LE(operation.ended, now() + std::chrono::milliseconds(5));
}

TEST(FlightRecorder, TellsWhatIsQueuedFromWhatIsStarted) {
  auto recorder = recorder_of();
  const auto ticket = recorder.record_queued(call_number(1));
  EXPECT_EQ(only_operation(recorder).state, FlightState::queued);
  EXPECT_EQ(only_operation(recorder).started, std::nullopt);
  recorder.mark_started(ticket);
  EXPECT_EQ(only_operation(recorder).state, FlightState::started);
  EXPECT_TRUE(only_operation(recorder).under_way());
}

TEST(FlightRecorder, TellsWhoIsWaitedForAndForWhatUntilItCame) {
  auto recorder = recorder_of();
  const auto ticket = recorder.record_started(call_number(1));
  recorder.mark_waiting(ticket, 3, WaitReason::reach_barrier, 100);
  const auto waits = only_operation(recorder);
  ASSERT_TRUE(waits.wait);
  EXPECT_EQ(waits.wait->peer, 3);
  EXPECT_EQ(waits.wait->reason, WaitReason::reach_barrier);
  EXPECT_EQ(waits.received, 100_B);
  recorder.mark_resumed(ticket);
  EXPECT_FALSE(only_operation(recorder).wait);
}

TEST(FlightRecorder, KeepsWhoWasWaitedForInWhatFailed) {
  auto recorder = recorder_of();
  const auto ticket = recorder.record_started(call_number(1));
  recorder.mark_waiting(ticket, 3, WaitReason::send_data, 0);
  recorder.mark_ended(ticket, false, 0);
  const auto failed = only_operation(recorder);
  EXPECT_EQ(failed.state, FlightState::failed);
  ASSERT_TRUE(failed.wait);
  EXPECT_EQ(failed.wait->peer, 3);
}

TEST(FlightRecorder, KeepsForWhomWhatIsDoneWaitedLongest) {
  auto recorder = recorder_of();
  const auto ticket = recorder.record_started(call_number(1));
  const auto begin = now();
  const auto wait = [&](int peer, WaitReason what, Nanoseconds least, int held_up = -1) {
    recorder.mark_waiting(ticket, peer, what, 0);
    for (const auto end = now() + least; now() < end;) std::this_thread::yield();
    recorder.mark_resumed(ticket, held_up);
  };
  wait(0, WaitReason::send_data, std::chrono::milliseconds(2), /*held_up=*/3);
  wait(0, WaitReason::send_data, std::chrono::milliseconds(1));
  // However long other threads computed in the meantime, this wait is the longest.
  wait(1, WaitReason::send_data, std::chrono::milliseconds(4) + (now() - begin));
  wait(3, WaitReason::receive_data, std::chrono::milliseconds(2));
  wait(2, WaitReason::enter_call, std::chrono::milliseconds(9));
  recorder.mark_ended(ticket, true, 0);
  recorder.mark_ended(recorder.record_started(call_number(2)), true, 0);
  const auto log = log_of(recorder);
  const auto& first = log.operations.at(0);
  ASSERT_TRUE(first.longest_send_wait && first.longest_receive_wait);
  EXPECT_EQ(first.longest_send_wait->peer, 3);
  EXPECT_GE(first.longest_send_wait->duration, std::chrono::milliseconds(4));
  EXPECT_EQ(first.longest_receive_wait->peer, 1);
  EXPECT_GE(first.longest_receive_wait->duration, std::chrono::milliseconds(4));
  EXPECT_LT(first.longest_send_wait->duration + first.longest_receive_wait->duration,
            *first.ended - *first.started);
  EXPECT_FALSE(first.wait);
  const auto& second = log.operations.at(1);
  EXPECT_FALSE(second.longest_send_wait || second.longest_receive_wait);
}

TEST(FlightRecorder, TellsRootsTagsAndPeers) {
  auto recorder = recorder_of();
  recorder.record_queued({.sequence = 1, .root = 3, .operation = 1});
  recorder.record_queued({.sequence = 9, .root = 77, .peer = 1, .operation = 2});
  const auto log = log_of(recorder);
  EXPECT_EQ(log.operations.at(0).root, 3);
  EXPECT_EQ(log.operations.at(1).name, "recv");
  EXPECT_EQ(log.operations.at(1).peer, 1);
  EXPECT_FALSE(log.operations.at(1).is_collective());
}

TEST(FlightRecorder, KeepsTheNewest) {
  auto recorder = recorder_of();
  for (std::uint64_t i = 1; i <= 5000; ++i)
    recorder.mark_ended(recorder.record_started(call_number(i)), true, 0);
  const auto log = log_of(recorder);
  ASSERT_THAT(log.operations, SizeIs(FlightRecorder::kRecords));
  EXPECT_EQ(log.operations.front().sequence, 5000 - FlightRecorder::kRecords + 1);
  EXPECT_EQ(log.operations.back().sequence, 5000u);
}

TEST(FlightRecorder, KeepsWhatIsUnderWayHoweverOld) {
  auto recorder = recorder_of();
  (void)recorder.record_started(call_number(1));
  for (std::uint64_t i = 2; i <= 9000; ++i)
    recorder.mark_ended(recorder.record_started(call_number(i)), true, 0);
  const auto log = log_of(recorder);
  EXPECT_EQ(log.operations.front().sequence, 1u);
  EXPECT_TRUE(log.operations.front().under_way());
  EXPECT_EQ(log.operations.back().sequence, 9000u);
}

TEST(FlightRecorder, CountsThatForWhichThereIsNoRoom) {
  auto recorder = recorder_of();
  for (std::uint64_t i = 1; i <= FlightRecorder::kRecords; ++i)
    recorder.record_queued(call_number(i));
  const auto ticket = recorder.record_queued(call_number(5000));
  recorder.mark_started(ticket);
  recorder.mark_waiting(ticket, 1, WaitReason::send_data, 0);
  recorder.mark_resumed(ticket);
  recorder.mark_ended(ticket, true, 0);
  const auto log = log_of(recorder);
  EXPECT_EQ(log.dropped, 1u);
  EXPECT_EQ(log.operations.back().sequence, FlightRecorder::kRecords);
}

TEST(FlightRecorder, TakesTheLabelOfTheThread) {
  auto recorder = recorder_of();
  {
    const FlightLabel outer("layers.7");
    recorder.record_queued(call_number(1));
    const FlightLabel inner("a name far too long for its place");
    recorder.record_queued(call_number(2));
  }
  recorder.record_queued(call_number(3));
  const auto log = log_of(recorder);
  EXPECT_EQ(log.operations.at(0).label, "layers.7");
  EXPECT_EQ(log.operations.at(1).label, "a name far too long for ");
  EXPECT_THAT(log.operations.at(2).label, IsEmpty());
}

TEST(FlightRecorder, LiesInAFileForItsOwnerAlone) {
  const FolderForTest folder;
  auto recorder = recorder_of();
  recorder.record_queued(call_number(5));
  struct stat status{};
  ASSERT_EQ(::stat((folder.path() / "rank-2.world.flight").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_EQ(folder.log().operations.at(0).sequence, 5u);
  EXPECT_EQ(folder.log().process, ProcessState::runs);
}

TEST(FlightRecorder, OutlivesAProcessThatIsKilled) {
  const FolderForTest folder;
  const pid_t child = ::fork();
  if (child == 0) {
    const FlightLabel label("layers.7");
    auto recorder = recorder_of();
    recorder.mark_ended(recorder.record_started(call_number(1)), true, 0);
    recorder.mark_waiting(recorder.record_started(call_number(2)), 0, WaitReason::send_data, 0);
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  const auto log = folder.log();
  EXPECT_EQ(log.process, ProcessState::ended);
  ASSERT_THAT(log.operations, SizeIs(2));
  EXPECT_EQ(log.operations[0].state, FlightState::done);
  EXPECT_EQ(log.operations[1].label, "layers.7");
  EXPECT_EQ(log.operations[1].wait->peer, 0);
}

TEST(FlightRecorder, TakesThePlaceOfAnEarlierRecord) {
  const FolderForTest folder;
  recorder_of().record_queued(call_number(1));
  auto recorder = recorder_of();
  recorder.record_queued(call_number(8));
  EXPECT_EQ(folder.log().operations.at(0).sequence, 8u);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}

TEST(FlightRecorder, GoesOnInMemoryWhereTheFolderCannotBeUsed) {
  std::string warning;
  set_log_sink([&](LogLevel, std::string_view message) { warning = message; });
  ::setenv(kFlightFolderVariable, "/dev/null/flight", 1);
  auto recorder = recorder_of();
  ::unsetenv(kFlightFolderVariable);
  set_log_sink({});
  EXPECT_THAT(warning, HasSubstr("/dev/null"));
  recorder.record_queued(call_number(1));
  EXPECT_EQ(only_operation(recorder).sequence, 1u);
}

TEST(FlightRecorder, IsWholeForWhoReadsWhileItIsWritten) {
  const FolderForTest folder;
  auto recorder = recorder_of();
  std::atomic<bool> stop = false;
  std::thread rank([&] {
    for (std::uint64_t i = 1; !stop; ++i) {
      const FlightLabel label(format("unit {}", i));
      const FlightCall call{.sequence = i, .bytes = 3 * i};
      recorder.mark_ended(recorder.record_started(call), true, 5 * i);
    }
  });
  for (int i = 0; i < 10; ++i) {
    const auto log = i % 2 == 0 ? folder.log() : log_of(recorder);
    for (const FlightOperation& operation : log.operations) {
      const auto number = static_cast<std::int64_t>(operation.sequence);
      ASSERT_EQ(operation.bytes, Bytes(3 * number));
      ASSERT_EQ(operation.label, format("unit {}", number));
      ASSERT_EQ(operation.received, Bytes(operation.ended ? 5 * number : 0));
    }
  }
  stop = true;
  rank.join();
}

TEST(ClockReadings, AreTheOneThatWasInterruptedTheLeast) {
  const auto best = [](std::vector<std::uint64_t> took) {
    std::uint64_t tries = 0;
    const auto read = [&] { return ClockReading{tries, took.at(tries++), {}, {}}; };
    return best_clock_reading(4, /*good_enough=*/200, read).ticks;
  };
  EXPECT_EQ(best({90}), 0u);
  EXPECT_EQ(best({9'000'000, 150}), 1u);
  EXPECT_EQ(best({9000, 300, 700, 8000}), 1u);
}

TEST(FlightFileName, IsOneForEachGroup) {
  EXPECT_EQ(flight_file_name(3, "world"), "rank-3.world.flight");
  EXPECT_THAT(flight_file_name(0, "pp/0"), testing::MatchesRegex("rank-0.pp-0-[0-9a-f]+.flight"));
  EXPECT_NE(flight_file_name(0, "pp/0"), flight_file_name(0, "pp:0"));
  EXPECT_LT(flight_file_name(0, std::string(300, 'x')).size(), 120u);
}

}  // namespace
}  // namespace lockstep::comm

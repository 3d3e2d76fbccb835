#include "comm/flight/log.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/temporary_folder_for_test.h"
#include "comm/flight/folder.h"

namespace lockstep::comm {
namespace {

namespace fs = std::filesystem;
using namespace flight_format;
using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;
using PlainHeader = Header<std::uint64_t>;
using PlainSlot = Slot<std::uint64_t>;

constexpr std::string_view kOneOperation[] = {"all_reduce"};

std::vector<std::byte> record_of(int operations) {
  FlightRecorder recorder({1, GroupRanks::world(4), "world", "host-a"}, {kOneOperation, {}, {}});
  for (int i = 1; i <= operations; ++i) {
    const auto ticket =
        recorder.record_started({.sequence = static_cast<std::uint64_t>(i), .bytes = 8});
    if (i % 3 == 0) recorder.mark_waiting(ticket, 2, WaitReason::send_data, 4);
    if (i % 2 == 0) recorder.mark_ended(ticket, i % 4 == 0, 8);
  }
  return recorder.snapshot();
}

template <class Part, class Change>
void change(std::vector<std::byte>& record, std::size_t offset, Change change_it) {
  Part part;
  std::memcpy(static_cast<void*>(&part), record.data() + offset, sizeof part);
  change_it(part);
  std::memcpy(record.data() + offset, &part, sizeof part);
}

template <class Change>
std::string refusal(Change change_it) {
  auto record = record_of(3);
  change<PlainHeader>(record, 0, change_it);
  const auto log = parse_flight(record);
  return log ? "accepted" : log.error().message;
}

template <class Change>
FlightLog with_first_slot(Change change_it) {
  auto record = record_of(3);
  change<PlainSlot>(record, kHeaderBytes, change_it);
  auto log = parse_flight(record);
  EXPECT_TRUE(log) << log.error().message;
  return *std::move(log);
}

TEST(FlightLog, NamesRanksByTheirNumbersInTheRunAndTheGroupByWhatItIs) {
  FlightRecorder recorder({1, {"shards of replica 1", {4, 7, 9}}, "g1-2", "host-a"},
                          {kOneOperation, {}, {}});
  const auto ticket = recorder.record_started({.sequence = 1, .bytes = 8, .root = 0});
  recorder.mark_waiting(ticket, 2, WaitReason::send_data, 4);
  (void)recorder.record_started({.bytes = 8, .root = 1, .peer = 0});
  const auto log = parse_flight(recorder.snapshot()).value();
  EXPECT_EQ(log.rank, 7);
  EXPECT_EQ(log.name, "shards of replica 1: ranks 4, 7, 9");
  EXPECT_EQ(log.group, "g1-2");
  EXPECT_EQ(log.members, (std::vector<int>{4, 7, 9}));
  EXPECT_EQ(log.operations.at(0).root, 4);
  EXPECT_EQ(log.operations.at(0).wait->peer, 9);
  EXPECT_EQ(log.operations.at(1).peer, 4);
  EXPECT_EQ(log.operations.at(1).root, 1) << "the tag of a send";
}

TEST(FlightLog, SaysSoWhereItDoesNotKnowTheNumbersInTheRun) {
  GroupRanks scattered{"shards of replica 0", {}};
  for (int i = 0; i < 400; ++i) scattered.ranks.push_back(i * i % 1009 + 2000 * (i % 2));
  FlightRecorder recorder({3, scattered, "g", "host-a"}, {kOneOperation, {}, {}});
  const auto log = parse_flight(recorder.snapshot()).value();
  EXPECT_EQ(log.rank, 3);
  EXPECT_THAT(log.name, HasSubstr("(ranks numbered within the group)"));
}

TEST(FlightLog, RefusesWhatIsNoRecordWithTheReason) {
  auto record = record_of(3);
  record.pop_back();
  EXPECT_THAT(parse_flight(record).error().message, HasSubstr("bytes"));
  EXPECT_THAT(parse_flight({}).error().message, HasSubstr("0 bytes"));
  EXPECT_THAT(refusal([](auto& header) { header.magic[3] = 'X'; }), HasSubstr("begin"));
  EXPECT_THAT(refusal([](auto& header) { header.format = 99; }), HasSubstr("format 99"));
  EXPECT_THAT(refusal([](auto& header) { header.slots = 1u << 31; }), HasSubstr("format"));
  EXPECT_THAT(refusal([](auto& header) { header.rank = 4; }), HasSubstr("rank 4 of 4"));
  EXPECT_THAT(refusal([](auto& header) { header.size = -1; }), HasSubstr("of -1"));
  EXPECT_THAT(refusal([](auto& header) { header.nanoseconds_per_tick = 0; }), HasSubstr("clocks"));
  EXPECT_THAT(refusal([](auto& header) { header.nanoseconds_per_tick = std::nan(""); }),
              HasSubstr("clocks"));
  EXPECT_THAT(refusal([](auto& header) { header.first.wall = UINT64_MAX; }), HasSubstr("clocks"));
}

TEST(FlightLog, CountsAnOperationThatMakesNoSense) {
  const auto counted = [](auto change_it) {
    const auto log = with_first_slot(change_it);
    return log.unreadable == 1 && log.operations.size() == 2;
  };
  EXPECT_TRUE(counted([](auto& slot) { slot.version |= 1; }));
  EXPECT_TRUE(counted([](auto& slot) { slot.codes |= 0x77; }));
  EXPECT_TRUE(counted([](auto& slot) { slot.bytes = UINT64_MAX; }));
  EXPECT_TRUE(counted([](auto& slot) { slot.started = 1ULL << 63; }));
  EXPECT_TRUE(counted([](auto& slot) { slot.started = 0; }));
  EXPECT_TRUE(counted([](auto& slot) { slot.enqueued = 0; }));
  EXPECT_TRUE(counted([](auto& slot) { slot.peers = 12345; }));
}

TEST(FlightLog, NamesAnUnknownCodeByItsNumber) {
  const auto log = with_first_slot([](auto& slot) { slot.codes |= 9 << 8; });
  EXPECT_EQ(log.operations.at(0).name, "code 9");
}

TEST(FlightLog, LetsNoControlCharacterThrough) {
  const auto log = with_first_slot([](auto& slot) { std::memcpy(slot.label, "\x1b[2Jx\xff", 7); });
  EXPECT_EQ(log.operations.at(0).label, "?[2Jx?");
}

// Each of these must be rejected or read; a sanitizer detects accesses outside the buffer.
TEST(FlightLog, SurvivesRandomDamage) {
  std::mt19937 random(20261121);
  const auto whole = record_of(60);
  for (int round = 0; round < 800; ++round) {
    auto record = whole;
    // Most damage is in used parts: the header and the first slots.
    const std::size_t reach =
        round % 4 == 0 ? record.size() : kHeaderBytes + 50 * sizeof(PlainSlot);
    for (unsigned i = 0; i <= random() % 16; ++i)
      record[random() % reach] = static_cast<std::byte>(random());
    if (round % 10 == 0) record.resize(random() % record.size());
    const auto log = parse_flight(record);
    if (!log) continue;
    for (const FlightOperation& operation : log->operations)
      ASSERT_LT(operation.wait ? operation.wait->peer : 0, log->size);
    (void)log->last_seen();
  }
}

class FlightFiles : public testing::Test {
 protected:
  void put(const std::string& name, const std::vector<std::byte>& bytes) const {
    std::ofstream file(folder_ / name, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  const TemporaryFolder folder_;
};

TEST_F(FlightFiles, AreReadTogetherAndThoseRefusedAreNamed) {
  put("rank-1.world.flight", record_of(3));
  put("rank-2.world.flight", {});
  put(".rank-3.world.flight.77", {});
  put("notes.txt", {});
  ::mkfifo((folder_ / "rank-4.world.flight").c_str(), 0600);
  const auto folder = read_flight_folder(folder_);
  ASSERT_TRUE(folder) << folder.error().message;
  EXPECT_THAT(folder->logs, SizeIs(1));
  ASSERT_THAT(folder->refused, SizeIs(2));
  EXPECT_THAT(folder->refused[0].message,
              AllOf(HasSubstr("rank-2.world.flight"), HasSubstr("0 bytes")));
}

TEST_F(FlightFiles, OfTorchAreReadTogetherWithOurs) {
  put("rank-1.world.flight", record_of(3));
  write("nccl_trace_rank_3",
        R"({"version": "2.10", "entries": [{"process_group": ["0", "default_pg"],
            "collective_seq_id": 1, "profiling_name": "nccl:barrier", "state": "scheduled",
            "time_created_ns": 1800000000000000000}]})");
  write("nccl_trace_rank_4", "{}");
  write("part_5", "neither a pickle nor JSON");
  const auto folder = read_flight_folder(folder_).value();
  ASSERT_THAT(folder.logs, SizeIs(2));
  EXPECT_EQ(folder.logs[1].rank, 3);
  EXPECT_THAT(folder.logs[1].members, testing::ElementsAre(3)) << "of which there are dumps";
  ASSERT_THAT(folder.refused, SizeIs(1));
  EXPECT_THAT(folder.refused[0].message, HasSubstr("nccl_trace_rank_4 is no dump of torch's"));
}

TEST_F(FlightFiles, ThatAreNotThereAreRefusedWithTheRemedy) {
  EXPECT_THAT(read_flight_folder(folder_).error().message, HasSubstr("LOCKSTEP_FLIGHT_DIR"));
  EXPECT_EQ(read_flight_folder(folder_ / "missing").error().code, Code::not_found);
}

}  // namespace
}  // namespace lockstep::comm

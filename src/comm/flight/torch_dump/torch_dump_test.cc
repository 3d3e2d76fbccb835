#include "comm/flight/torch_dump/torch_dump.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/flight/diagnosis/diagnosis.h"
#include "comm/flight/diagnosis/straggler.h"
#include "comm/flight/torch_dump/pickle_for_test.h"
#include "text/json.h"

namespace lockstep::comm::torch_dump {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::int64_t kBegin = 1'800'000'000'000'000'000;
constexpr std::int64_t kSecond = 1'000'000'000;

FlightTime at(std::int64_t seconds) { return FlightTime(Nanoseconds(kBegin + seconds * kSecond)); }

// The sizes of one tensor.
Json sizes(int rows, int columns) { return Json::array({Json::array({rows, columns})}); }

// An entry of a completed all-reduce of 4 MiB, created in the second of its number.
Json entry(std::int64_t number, const char* name = "nccl:all_reduce") {
  return Json{{"record_id", number},
              {"pg_id", 0},
              {"process_group", Json::array({"0", "default_pg"})},
              {"collective_seq_id", number},
              {"p2p_seq_id", 0},
              {"op_id", number},
              {"profiling_name", name},
              {"time_created_ns", kBegin + number * kSecond},
              {"input_sizes", sizes(1024, 1024)},
              {"input_dtypes", Json::array({"Float"})},
              {"output_sizes", sizes(1024, 1024)},
              {"output_dtypes", Json::array({"Float"})},
              {"state", "completed"},
              {"time_discovered_started_ns", nullptr},
              {"time_discovered_completed_ns", kBegin + number * kSecond + kSecond / 2},
              {"retired", true},
              {"timeout_ms", 600000},
              {"is_p2p", false}};
}

Json open(Json made, const char* state = "scheduled") {
  made["state"] = state;
  made["retired"] = false;
  made["time_discovered_completed_ns"] = nullptr;
  return made;
}

Json with(Json made, const char* name, Json value) {
  made[name] = std::move(value);
  return made;
}

Json exchange(std::int64_t number, const char* name) {
  return with(with(entry(number, name), "is_p2p", true), "p2p_seq_id", number);
}

Json dump_of(std::vector<Json> entries) {
  const auto world = Json{{"name", "0"}, {"desc", "default_pg"}, {"ranks", "[0, 1]"}};
  const auto part = Json{{"name", "3"}, {"desc", "mesh_tp"}, {"ranks", "[4, 6]"}};
  return Json{{"version", "2.10"},
              {"pg_config", {{"0", world}, {"3", part}}},
              {"entries", std::move(entries)}};
}

std::vector<FlightLog> dumped_logs(std::vector<Json> entries, int rank = 0) {
  const auto bytes = testing_pickle::PickleWriter::pickled(dump_of(std::move(entries)));
  auto logs = parse_torch_dump(bytes, rank);
  EXPECT_TRUE(logs) << logs.error().message;
  return logs ? *std::move(logs) : std::vector<FlightLog>();
}

std::vector<FlightOperation> operations_of(std::vector<Json> entries) {
  auto logs = dumped_logs(std::move(entries));
  EXPECT_THAT(logs, SizeIs(1));
  return logs.empty() ? std::vector<FlightOperation>() : std::move(logs[0].operations);
}

TEST(TorchDump, HasALogForEachProcessGroup) {
  auto logs = dumped_logs(
      {entry(1), with(entry(1), "process_group", Json::array({"3", "mesh_tp"})), entry(2)}, 4);
  ASSERT_THAT(logs, SizeIs(2));
  EXPECT_EQ(logs[0].name, "world of torch");
  EXPECT_THAT(logs[0].operations, SizeIs(2));
  EXPECT_EQ(logs[1].name, "torch's group 3 (mesh_tp): ranks 4, 6");
  EXPECT_EQ(logs[1].rank, 4);
  EXPECT_THAT(logs[1].members, ElementsAre(4, 6));
}

TEST(TorchDump, TellsOfACallWhatOurRecordsTell) {
  auto made = with(entry(7, "nccl:_all_gather_base"), "output_sizes", sizes(2048, 1024));
  made["frames"] = Json::parse(R"([{"filename": "/v/site-packages/torch/x.py", "line": 1},
                                   {"filename": "/home/a/train.py", "line": 87}])");
  const auto call = operations_of({made}).at(0);
  EXPECT_EQ(call.sequence, 7u);
  EXPECT_EQ(call.name, "all_gather");
  EXPECT_EQ(call.label, "train.py:87");
  EXPECT_EQ(call.type, "float32");
  EXPECT_EQ(call.bytes, 4_MiB) << "a rank's share";
  EXPECT_EQ(call.state, FlightState::done);
  EXPECT_EQ(call.enqueued, at(7));
  EXPECT_EQ(call.ended, at(7) + milliseconds(500));
}

TEST(TorchDump, ReadsTheFormInJsonToo) {
  const auto logs = parse_torch_dump(dump_json(dump_of({entry(1)})), 1).value();
  EXPECT_EQ(logs.at(0).operations.at(0).name, "all_reduce");
}

TEST(TorchDump, TheOldestOpenCallCountsAsEnteredWhereTorchNotesNoStarts) {
  const auto calls = operations_of({entry(1), open(entry(2)), open(entry(3))});
  EXPECT_EQ(calls.at(1).state, FlightState::started);
  EXPECT_EQ(calls.at(1).started, at(2));
  EXPECT_EQ(calls.at(2).state, FlightState::queued);
}

TEST(TorchDump, ACallIsQueuedUntilTorchNotesItsStart) {
  const auto begun = with(entry(1), "time_discovered_started_ns", kBegin + kSecond);
  const auto calls = operations_of({begun, open(entry(2))});
  EXPECT_EQ(calls.at(1).state, FlightState::queued);
}

TEST(TorchDump, ACallThatTimedOutHasFailed) {
  const auto calls = operations_of({with(open(entry(1)), "retired", true)});
  EXPECT_EQ(calls.at(0).state, FlightState::failed);
  EXPECT_EQ(calls.at(0).ended, at(601));
}

TEST(TorchDump, GloosCallsEndWhenTheyAreRetired) {
  const auto calls = operations_of({with(open(entry(1, "gloo:all_reduce")), "retired", true)});
  EXPECT_EQ(calls.at(0).state, FlightState::done);
}

TEST(TorchDump, ABatchOfCollectivesIsOneCallWithTheStateOfTheWhole) {
  const auto part = open(with(entry(5), "collective_seq_id", 4));
  const auto whole =
      with(with(entry(6, "nccl:coalesced"), "collective_seq_id", 4), "input_sizes", Json::array());
  const auto calls = operations_of({part, part, whole});
  ASSERT_THAT(calls, SizeIs(1));
  EXPECT_EQ(calls[0].name, "all_reduce");
  EXPECT_EQ(calls[0].bytes, 8_MiB);
  EXPECT_EQ(calls[0].state, FlightState::done);
}

TEST(TorchDump, SendsAndReceivesHavePeersAndTheStateOfTheirBatch) {
  const auto calls =
      operations_of({open(exchange(2, "nccl:send 0->1")), open(exchange(2, "nccl:recv 0<-1")),
                     exchange(2, "nccl:coalesced"), open(exchange(3, "nccl:recv 0<-1"))});
  ASSERT_THAT(calls, SizeIs(3));
  EXPECT_EQ(calls[0].name, "send");
  EXPECT_EQ(calls[0].peer, 1);
  EXPECT_EQ(calls[0].state, FlightState::done);
  EXPECT_TRUE(calls[1].receives);
  EXPECT_EQ(calls[2].state, FlightState::queued);
}

TEST(TorchDump, OfSeveralRanksNamesTheOneThatDidNotCome) {
  auto logs = dumped_logs({entry(1), open(entry(2))}, 0);
  std::ranges::move(dumped_logs({entry(1)}, 1), std::back_inserter(logs));
  const auto groups = flight_groups(std::move(logs));
  ASSERT_THAT(groups, SizeIs(1));
  EXPECT_THAT(diagnose(groups[0], at(60)), HasSubstr("rank 1 has not entered #2 all_reduce"));
  EXPECT_EQ(find_late_rank(groups[0]), 1);
}

TEST(TorchDump, NamesNoStragglersBecauseItsTimesAreThoseOfTheWatchdog) {
  std::vector<FlightLog> logs;
  for (const int rank : {0, 1}) {
    std::vector<Json> entries;
    for (std::int64_t i = 1; i <= 40; ++i)
      entries.push_back(
          with(entry(i), "time_created_ns", kBegin + i * kSecond + rank * kSecond / 4));
    std::ranges::move(dumped_logs(std::move(entries), rank), std::back_inserter(logs));
  }
  EXPECT_THAT(find_stragglers(flight_groups(std::move(logs)).at(0)), IsEmpty());
}

TEST(TorchDump, AGroupWithoutMembersHasTheRanksWhoseDumpsHaveIt) {
  const auto elsewhere = with(entry(1), "process_group", Json::array({"9", "undefined"}));
  auto logs = dumped_logs({elsewhere}, 2);
  std::ranges::move(dumped_logs({elsewhere}, 5), std::back_inserter(logs));
  complete_torch_groups(logs);
  EXPECT_THAT(logs.at(0).members, ElementsAre(2, 5));
  EXPECT_EQ(logs.at(1).size, 2);
}

TEST(TorchDump, EntriesThatMakeNoSenseAreCounted) {
  const auto logs = dumped_logs(
      {entry(1), with(entry(2), "state", "lost"), with(entry(3), "process_group", "0"),
       with(entry(4), "time_created_ns", -1), with(entry(5), "profiling_name", "x"),
       with(entry(6), "collective_seq_id", nullptr), exchange(7, "nccl:send 0-1"), Json(8)});
  EXPECT_THAT(logs.at(0).operations, SizeIs(1));
  EXPECT_EQ(logs.at(0).unreadable, 7u);
}

TEST(TorchDump, AnotherFileIsRefusedWithTheReason) {
  const auto refusal = [](const Json& value) {
    return parse_torch_dump(testing_pickle::PickleWriter::pickled(value), 0).error().message;
  };
  EXPECT_THAT(refusal(Json{{"version", "3.0"}}), HasSubstr("version \"3.0\""));
  EXPECT_THAT(refusal(Json{{"version", "2.1"}}), HasSubstr("no entries"));
  EXPECT_THAT(refusal(Json("text")), HasSubstr("version \"\""));
  EXPECT_THAT(refusal(dump_of({Json(1)})), HasSubstr("no operation that can be read (1"));
}

TEST(TorchDump, TheRankIsTheNumberAtTheEndOfTheFilesName) {
  EXPECT_EQ(rank_of_torch_dump("nccl_trace_rank_12"), 12);
  EXPECT_EQ(rank_of_torch_dump("trace_3.json"), 3);
  for (const char* other : {"rank-0.world.flight", "12", "notes.txt", ".hidden_1", "a99999999999"})
    EXPECT_EQ(rank_of_torch_dump(other), std::nullopt) << other;
}

}  // namespace
}  // namespace lockstep::comm::torch_dump

#include "comm/flight/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/flight/report/table.h"
#include "comm/flight/report/trace.h"
#include "comm/flight/report/verdict.h"
#include "comm/flight/report/words.h"
#include "text/convert.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

const FlightTime kBegin = FlightTime(seconds(1'800'000'000));
const FlightTime kNow = kBegin + seconds(40);

FlightOperation call(std::uint64_t sequence, std::string name, std::string label = {}) {
  FlightOperation operation;
  operation.sequence = sequence;
  operation.name = std::move(name);
  operation.label = std::move(label);
  operation.bytes = operation.name == "barrier" ? 0_B : 4_MiB;
  operation.enqueued = kBegin;
  return operation;
}

// Each of these enters at kBegin + `at` unless it is only queued.
FlightOperation started(FlightOperation operation, milliseconds at) {
  operation.state = FlightState::started;
  operation.enqueued = kBegin + at;
  operation.started = kBegin + at;
  return operation;
}

FlightOperation done(FlightOperation operation, milliseconds at, milliseconds lasted) {
  operation = started(std::move(operation), at);
  operation.state = FlightState::done;
  operation.ended = kBegin + at + lasted;
  return operation;
}

FlightOperation failed(FlightOperation operation) {
  operation.state = FlightState::failed;
  operation.ended = *operation.started + seconds(30);
  return operation;
}

FlightOperation waiting(FlightOperation operation, int peer, std::string purpose) {
  operation.wait = {peer, std::move(purpose), *operation.started};
  return operation;
}

FlightLog rank(int number, std::vector<FlightOperation> operations) {
  FlightLog log;
  log.rank = number;
  log.size = 3;
  log.group = "world";
  log.host = "host-a";
  log.pid = 4700 + number;
  log.process = ProcessState::runs;
  log.begun = kBegin;
  log.operations = std::move(operations);
  return log;
}

FlightGroup group_of(std::vector<FlightLog> logs) {
  auto groups = flight_groups(std::move(logs));
  EXPECT_THAT(groups, SizeIs(1));
  return groups.at(0);
}

// Rank 1 hangs in the barrier that the others have left.
std::vector<FlightLog> one_behind() {
  const auto barrier = call(810, "barrier");
  const auto gather = call(811, "all_gather", "layers.6");
  const auto scatter = call(812, "reduce_scatter", "layers.7");
  return {rank(0, {done(barrier, milliseconds(0), milliseconds(2)),
                   waiting(started(gather, milliseconds(10)), 1, "to send data")}),
          rank(1, {waiting(started(barrier, milliseconds(1)), 0, "to call it too"), gather}),
          rank(2, {done(barrier, milliseconds(3), milliseconds(1)),
                   done(gather, milliseconds(12), milliseconds(5)),
                   started(scatter, milliseconds(20))})};
}

TEST(FlightVerdict, NamesWhoHasNotEnteredAndInWhatItWasLastSeen) {
  EXPECT_EQ(verdict_of(group_of(one_behind()), kNow),
            "rank 2 is at #812 reduce_scatter(layers.7, 4.0 MiB); rank 1 has not entered #811 "
            "all_gather(layers.6, 4.0 MiB), last seen 40.0s ago in #810 barrier, waiting for rank "
            "0 to call it too");
}

TEST(FlightVerdict, TellsThatAProcessHasEndedAndWhoLeftNoRecord) {
  auto logs = one_behind();
  logs[1].process = ProcessState::ended;
  logs.erase(logs.begin());
  EXPECT_EQ(verdict_of(group_of(std::move(logs)), kNow),
            "rank 2 is at #812 reduce_scatter(layers.7, 4.0 MiB); rank 1 has not entered #811 "
            "all_gather(layers.6, 4.0 MiB), last seen 40.0s ago in #810 barrier, waiting for rank "
            "0 to call it too; its process 4701 on host-a has ended; there is no record of rank 0");
}

TEST(FlightVerdict, BlamesOfSeveralBehindThoseWhoWaitForNobody) {
  const auto first = call(5, "all_reduce"), second = call(6, "barrier");
  const auto words =
      verdict_of(group_of({rank(0, {done(first, milliseconds(0), milliseconds(9)),
                                    started(second, milliseconds(10))}),
                           rank(1, {waiting(started(first, milliseconds(0)), 2, "to send data")}),
                           rank(2, {started(first, milliseconds(0))})}),
                 kNow);
  EXPECT_EQ(words,
            "rank 0 is at #6 barrier; rank 2 has not entered #6 barrier, last seen 40s ago in "
            "#5 all_reduce(4.0 MiB)");
}

TEST(FlightVerdict, TellsWhoWaitsForWhomWhenAllAreInTheSameCall) {
  const auto reduce = call(7, "all_reduce", "loss");
  EXPECT_EQ(verdict_of(
                group_of({rank(0, {waiting(started(reduce, milliseconds(0)), 1, "to send data")}),
                          rank(1, {started(reduce, milliseconds(10))}),
                          rank(2, {waiting(started(reduce, milliseconds(0)), 1, "to send data")})}),
                kNow),
            "ranks 0, 1 and 2 are in #7 all_reduce(loss, 4.0 MiB): ranks 0 and 2 wait for rank 1 "
            "to send data (40s), rank 1 waits for nobody, last seen 40.0s ago");
}

TEST(FlightVerdict, TellsWhatFailed) {
  const auto reduce = call(7, "all_reduce");
  const auto of_rank = [&](int number) {
    return rank(
        number,
        {failed(waiting(started(reduce, milliseconds(0)), (number + 1) % 3, "to send data"))});
  };
  EXPECT_EQ(verdict_of(group_of({of_rank(0), of_rank(1), of_rank(2)}), kNow),
            "ranks 0, 1 and 2 failed in #7 all_reduce(4.0 MiB): rank 2 waited for rank 0 to send "
            "data (30s), rank 0 waited for rank 1 to send data (30s), rank 1 waited for rank 2 to "
            "send data (30s)");
}

TEST(FlightVerdict, NamesCallsThatDoNotMatch) {
  auto sum = call(7, "all_reduce");
  sum.type = "float32";
  sum.reduction = "sum";
  auto root = call(7, "broadcast");
  root.root = 1;
  EXPECT_EQ(verdict_of(group_of({rank(0, {started(sum, milliseconds(0))}),
                                 rank(1, {started(sum, milliseconds(0))}),
                                 rank(2, {started(root, milliseconds(0))})}),
                       kNow),
            "the ranks' calls do not match at #7: rank 0 called all_reduce(float32 sum, 4194304 "
            "bytes), rank 2 called broadcast(root 1, 4194304 bytes)");
}

TEST(FlightVerdict, TellsThatNothingIsUnderWay) {
  const auto over = done(call(7, "barrier"), milliseconds(0), milliseconds(1));
  EXPECT_EQ(verdict_of(group_of({rank(0, {over}), rank(1, {over}), rank(2, {over})}), kNow),
            "ranks 0, 1 and 2 have ended #7 barrier, the last 40.0s ago; nothing is under way");
  EXPECT_EQ(verdict_of(group_of({rank(0, {}), rank(1, {}), rank(2, {})}), kNow),
            "no collective was called");
}

TEST(FlightTable, SetsTheRanksSideBySide) {
  EXPECT_EQ(flight_table(group_of(one_behind()), 20, kNow).text(),
            "OPERATION                               RANK 0             RANK 1             "
            "RANK 2        ENTERED LAST\n"
            "#810 barrier                            2ms                waits 40.0s for 0  "
            "1ms           rank 2, 3ms later\n"
            "#811 all_gather(layers.6, 4.0 MiB)      waits 40.0s for 1  queued             "
            "5ms           rank 2, 2ms later\n"
            "#812 reduce_scatter(layers.7, 4.0 MiB)  -                  -                  "
            "inside 40.0s  -\n");
}

TEST(FlightTable, ShowsTheNewestAndOfManyRanksThoseFarthestBehind) {
  std::vector<FlightLog> logs;
  for (int number = 0; number < 12; ++number) {
    logs.push_back(rank(number, {started(call(1, "barrier"), milliseconds(0))}));
    logs.back().size = 12;
    if (number < 6) logs.back().operations.push_back(started(call(2, "barrier"), milliseconds(1)));
  }
  const auto words = flight_table(group_of(std::move(logs)), 1, kNow).text();
  EXPECT_THAT(words, testing::Not(HasSubstr("#1 ")));
  EXPECT_THAT(words, HasSubstr("RANK 0"));
  EXPECT_THAT(words, testing::Not(HasSubstr("RANK 2")));
  EXPECT_THAT(words, HasSubstr("RANK 11"));
}

constexpr auto kTraceOfOneRank = R"json({
  "traceEvents": [
    {
      "name": "process_name",
      "ph": "M",
      "pid": 0,
      "tid": 0,
      "args": {
        "name": "rank 0",
        "labels": "host-a"
      }
    },
    {
      "name": "thread_name",
      "ph": "M",
      "pid": 0,
      "tid": 0,
      "args": {
        "name": "world"
      }
    },
    {
      "name": "barrier",
      "cat": "collective",
      "ts": 0.0,
      "pid": 0,
      "tid": 0,
      "args": {
        "call": "barrier(0 bytes)",
        "sequence": 810,
        "state": "done",
        "queued_us": 0.0
      },
      "ph": "X",
      "dur": 2000.0
    },
    {
      "name": "all_gather layers.6",
      "cat": "collective",
      "ts": 10000.0,
      "pid": 0,
      "tid": 0,
      "args": {
        "call": "all_gather(layers.6, 4194304 bytes)",
        "sequence": 811,
        "state": "started",
        "queued_us": 0.0,
        "waits": "for rank 1 to send data"
      },
      "ph": "X",
      "dur": 39990000.0
    }
  ],
  "displayTimeUnit": "ns"
})json";

TEST(FlightTrace, HasATrackARankAndASliceACall) {
  auto logs = one_behind();
  logs.resize(1);
  EXPECT_EQ(dump_json(flight_trace({group_of(std::move(logs))}, kNow), Indent::two),
            kTraceOfOneRank);
}

TEST(FlightTrace, ShowsTheGroupsOfAProcessTogetherUnderItsRankInTheLargest) {
  auto of_world = rank(2, {started(call(1, "barrier"), milliseconds(0))});
  auto of_pair = rank(0, {started(call(1, "barrier"), milliseconds(0))});
  of_pair.group = "a pair";
  of_pair.size = 2;
  of_pair.pid = of_world.pid;
  auto recv = started(call(1, "recv"), milliseconds(5));
  recv.peer = 1;
  of_pair.operations.push_back(recv);
  const auto trace = flight_trace(flight_groups({of_world, of_pair}), kNow);
  std::vector<std::string> kinds;
  for (const Json& event : trace["traceEvents"]) kinds.push_back(event["ph"]);
  EXPECT_THAT(kinds, ElementsAre("M", "M", "X", "b", "e", "M", "X"));
  EXPECT_EQ(trace["traceEvents"][0]["args"]["name"], "rank 2");
}

TEST(FlightGroups, KeepOfTwoRecordsOfARankTheLaterBegun) {
  auto old = rank(1, {call(1, "barrier")});
  auto later = rank(1, {call(9, "barrier")});
  later.begun += seconds(1);
  const auto group = group_of({old, later, rank(0, {})});
  ASSERT_THAT(group.logs, SizeIs(2));
  EXPECT_EQ(group.logs[1].operations.at(0).sequence, 9u);
}

TEST(FlightReport, IsARecordForPrograms) {
  const auto report = to_json(flight_report(group_of(one_behind()), 20, kNow));
  EXPECT_EQ(report["group"], "world");
  EXPECT_EQ(report["ranks"][1]["process"], "runs");
  const auto& gather = report["collectives"][1];
  EXPECT_EQ(gather["sequence"], 811);
  EXPECT_EQ(gather["last_rank"], 2);
  EXPECT_EQ(gather["skew_seconds"], 0.002);
  EXPECT_EQ(gather["ranks"][0]["waits_for"], 1);
  EXPECT_EQ(gather["ranks"][1]["state"], "queued");
  EXPECT_EQ(gather["ranks"][2]["lasted_seconds"], 0.005);
}

TEST(FlightAges, CountFromTheLastRecordOnceAllProcessesHaveEnded) {
  auto logs = one_behind();
  EXPECT_EQ(viewed_at(logs, kNow), kNow);
  for (FlightLog& log : logs) log.process = ProcessState::ended;
  EXPECT_EQ(viewed_at(logs, kNow), kBegin + milliseconds(20));
}

TEST(FlightWords, NameRanksAndSpans) {
  EXPECT_EQ(ranks_text({3}), "rank 3");
  EXPECT_EQ(ranks_text({0, 1, 2, 3}), "ranks 0, 1, 2 and 3");
  EXPECT_EQ(ranks_text({0, 1, 2, 3, 4, 5}), "ranks 0, 1, 2, 3 and 2 more");
  EXPECT_EQ(span_text(Nanoseconds(-5)), "0s");
  EXPECT_EQ(span_text(Nanoseconds(740)), "740ns");
  EXPECT_EQ(span_text(milliseconds(1234)), "1.2s");
}

}  // namespace
}  // namespace lockstep

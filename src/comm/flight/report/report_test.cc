#include "comm/flight/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/flight/diagnosis/logs_for_test.h"
#include "comm/flight/report/table.h"
#include "comm/flight/report/trace.h"
#include "text/convert.h"

namespace lockstep::comm {
namespace {

using namespace testing_flight;
using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(FlightTable, SetsTheRanksSideBySide) {
  EXPECT_EQ(flight_table(group_of(one_late_rank()), 20, kNow).text(),
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
    logs.back().members = GroupRanks::world(12).ranks;
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
  auto logs = one_late_rank();
  logs.resize(1);
  EXPECT_EQ(dump_json(flight_trace({group_of(std::move(logs))}, kNow), Indent::two),
            kTraceOfOneRank);
}

TEST(FlightTrace, ShowsTheGroupsOfAProcessTogether) {
  auto of_world = rank(2, {started(call(1, "barrier"), milliseconds(0))});
  auto of_pair = rank(2, {started(call(1, "barrier"), milliseconds(0))});
  of_pair.group = of_pair.name = "a pair";
  of_pair.size = 2;
  of_pair.members = {2, 1};
  auto recv = started(call(1, "recv"), milliseconds(5));
  recv.peer = 1;
  of_pair.operations.push_back(recv);
  const auto trace = flight_trace(flight_groups({of_world, of_pair}), kNow);
  std::vector<std::string> kinds;
  for (const Json& event : trace["traceEvents"]) kinds.push_back(event["ph"]);
  EXPECT_THAT(kinds, ElementsAre("M", "M", "X", "M", "X", "b", "e"));
  EXPECT_EQ(trace["traceEvents"][0]["args"]["name"], "rank 2");
}

TEST(FlightReport, IsARecordForPrograms) {
  const auto report = to_json(flight_report(group_of(one_late_rank()), 20, kNow));
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

}  // namespace
}  // namespace lockstep::comm

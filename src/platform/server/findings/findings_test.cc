// Findings from the reports of agents to the answers of the API.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/server/server_for_test.h"
#include "text/json.h"

namespace lockstep::server {
namespace {

using testing::HasSubstr;

class FindingsTest : public ServerTest {
 protected:
  // One step of both ranks.
  void log_step(int step, double slow_rank) {
    Json items = Json::array();
    for (const int rank : {0, 1})
      items.push_back({{"sequence", ++sequence_},
                       {"kind", "metrics"},
                       {"rank", rank},
                       {"step", step},
                       {"time", format("2026-11-20T12:{:02}:{:02}Z", step / 60, step % 60)},
                       {"values", {{"compute_seconds", rank == 1 ? slow_rank : 1.0}}}});
    heartbeat_of_ranks("running", {{"items", items}});
  }
  Json findings(const std::string& query = "") {
    return get("/api/v1/runs/demo/1/findings" + query)["findings"];
  }

 private:
  std::int64_t sequence_ = 0;
};

TEST_F(FindingsTest, ASlowRankIsNamedWithItsHostAndDeviceUntilItIsFastAgain) {
  submit();
  for (int step = 0; step < 10; ++step) log_step(step, 1);
  EXPECT_TRUE(findings().empty());
  for (int step = 10; step < 30; ++step) log_step(step, 2);
  const Json found = findings();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0]["kind"], "straggler");
  EXPECT_EQ(found[0]["run"], "demo/1");
  EXPECT_EQ(found[0]["attempt"], 1);
  EXPECT_EQ(found[0]["host"], "a");
  EXPECT_EQ(found[0]["rank"], 1);
  EXPECT_EQ(found[0]["device"], 1);
  EXPECT_EQ(found[0]["since"], "2026-11-20T12:00:10Z");
  EXPECT_EQ(found[0]["ended"], nullptr);
  EXPECT_EQ(found[0]["act"], "event");
  EXPECT_EQ(get("/api/v1/findings?open=true")["findings"], found);
  const Json events = get("/api/v1/runs/demo/1")["events"];
  EXPECT_THAT(dump_json(events), HasSubstr("finding: straggler: rank 1, device 1, host a: its"));
  for (int step = 30; step < 60; ++step) log_step(step, 1);
  EXPECT_TRUE(findings("?open=true").empty());
  ASSERT_EQ(findings().size(), 1U);
  EXPECT_NE(findings()[0]["ended"], nullptr);
}

TEST_F(FindingsTest, TheEnergyOfARunIsSummed) {
  submit();
  Json items = Json::array();
  for (int second = 0; second <= 36; ++second)
    items.push_back({{"sequence", second + 1},
                     {"kind", "telemetry"},
                     {"step", second},
                     {"time", format("2026-11-20T12:00:{:02}Z", second)},
                     {"values", {{"device0/power_watts", 500}, {"device1/power_watts", 500}}}});
  for (int i = 0; i < 2; ++i) heartbeat_of_ranks("running", {{"items", items}});
  const Json rows = get("/api/v1/device-use?by=user,run,month&month=2026-11")["rows"];
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0]["run"], "demo/1");
  EXPECT_NEAR(rows[0]["device_kwh"].get<double>(), 0.01, 1e-9);
  EXPECT_EQ(rows[0]["host_kwh"], nullptr);
  EXPECT_EQ(rows[0]["flops_utilization_percent"], nullptr);
}

}  // namespace
}  // namespace lockstep::server

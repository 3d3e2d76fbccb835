// /metrics over HTTP.
#include <gmock/gmock.h>

#include "platform/server/server_for_test.h"

namespace lockstep::server {
namespace {

using testing::HasSubstr;
using testing::Not;

class MetricsPageTest : public ServerTest {
 protected:
  std::string page() {
    const net::HttpResponse response = call_as_user("GET", "/metrics");
    EXPECT_EQ(response.status, 200) << response.body;
    return response.body;
  }
};

TEST_F(MetricsPageTest, ItNeedsTheTokenOfAUser) {
  const auto none = call({.method = "GET", .target = "/metrics"}, std::nullopt);
  EXPECT_EQ(none.status, 401);
  EXPECT_THAT(none.body, Not(HasSubstr("lockstep_")));
  EXPECT_EQ(call({.method = "GET", .target = "/metrics"}, "Bearer wrong").status, 401);
  EXPECT_EQ(call_as_user("POST", "/metrics", "{}").status, 404);
}

TEST_F(MetricsPageTest, TheTypeIsThatOfTheAskedFormat) {
  const std::string bearer = "Bearer " + user_token_;
  EXPECT_EQ(call({.method = "GET", .target = "/metrics"}, bearer).headers.find("Content-Type"),
            "text/plain; version=0.0.4; charset=utf-8");
  const auto open = call({.method = "GET",
                          .target = "/metrics",
                          .headers = {{"Accept", "application/openmetrics-text;version=1.0.0"}}},
                         bearer);
  EXPECT_EQ(open.headers.find("Content-Type"),
            "application/openmetrics-text; version=1.0.0; charset=utf-8");
  EXPECT_TRUE(open.body.ends_with("\n# EOF\n"));
}

TEST_F(MetricsPageTest, RunsAndDevicesAreCountedByState) {
  EXPECT_THAT(page(), HasSubstr("lockstep_devices{state=\"free\"} 2\n"));
  submit();
  heartbeat_of_ranks("running");
  const std::string text = page();
  EXPECT_THAT(text, HasSubstr("lockstep_runs{project=\"demo\",state=\"running\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("lockstep_project_devices{project=\"demo\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("lockstep_devices{state=\"used\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("lockstep_host_devices_used{host=\"a\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("lockstep_heartbeats_total 1\n"));
}

TEST_F(MetricsPageTest, AWaitingRunIsInTheQueueAndAHeldOneBesideIt) {
  submit();
  submit();
  submit();
  call_as_user("POST", "/api/v1/runs/demo/3/hold", "{}");
  const std::string text = page();
  EXPECT_THAT(text, HasSubstr("lockstep_queue_runs{state=\"waiting\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("lockstep_queue_runs{state=\"held\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("lockstep_queue_devices 2\n"));
}

TEST_F(MetricsPageTest, AnEndedRunIsCountedOnce) {
  submit();
  submit();  // waits, so that it ends at once
  EXPECT_EQ(call_as_user("POST", "/api/v1/runs/demo/2/stop", "{}").status, 200);
  EXPECT_EQ(call_as_user("POST", "/api/v1/runs/demo/2/stop", "{}").status, 200);
  EXPECT_THAT(page(),
              HasSubstr("lockstep_runs_ended_total{project=\"demo\",state=\"cancelled\"} 1\n"));
}

TEST_F(MetricsPageTest, RequestsAreCountedByRouteAndStatusAndNeverByTheWordsOfACaller) {
  get("/api/v1/runs");
  get("/api/v1/runs");
  call_as_user("GET", "/api/v1/runs/demo/77");
  call_as_user("GET", "/secret-words");
  const std::string text = page();
  EXPECT_THAT(text, HasSubstr("lockstep_http_requests_total{method=\"GET\",route=\"/api/v1/runs\","
                              "status=\"200\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("route=\"/api/v1/runs/{project}/{number}\",status=\"404\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("route=\"other\",status=\"404\"} 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("secret-words")));
}

TEST_F(MetricsPageTest, LinesAndPointsOfRanksAreCounted) {
  submit();
  const Json metrics = {{"sequence", 2},
                        {"kind", "metrics"},
                        {"rank", 0},
                        {"step", 1},
                        {"values", {{"loss", 1.5}, {"rate", 0.1}}}};
  heartbeat_of_ranks("running", {{"items", {log(1, 0, "hello"), metrics}}});
  heartbeat_of_ranks("running", {{"items", {log(1, 0, "hello"), metrics}}});  // repeated
  const std::string text = page();
  EXPECT_THAT(text, HasSubstr("lockstep_log_bytes_total 5\n"));
  EXPECT_THAT(text, HasSubstr("lockstep_series_points_total 2\n"));
}

TEST_F(MetricsPageTest, CommitsAndTheProcessAreOnIt) {
  submit();
  const std::string text = page();
  EXPECT_THAT(text, Not(HasSubstr("lockstep_commits_total{result=\"stored\"} 0\n")));
  EXPECT_THAT(text, HasSubstr("lockstep_commits_total{result=\"failed\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("lockstep_problems 1\n"));
  EXPECT_THAT(text, HasSubstr("\nprocess_resident_memory_bytes "));
  EXPECT_THAT(text, HasSubstr("\nprocess_cpu_seconds_total "));
}

}  // namespace
}  // namespace lockstep::server

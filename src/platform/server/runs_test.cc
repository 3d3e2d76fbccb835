// Requests of users for runs, the queue, hosts and limits, and the views that they get.
#include <algorithm>
#include <cstdint>
#include <future>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.h"
#include "platform/server/server_for_test.h"
#include "text/json.h"

namespace lockstep::server {
namespace {

using std::chrono::seconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(ServerTest, ASubmittedRunIsSeenInFullAndInLists) {
  submit();
  const Json run = get("/api/v1/runs/demo/1");
  EXPECT_EQ(run["id"], "demo/1");
  EXPECT_EQ(run["state"], "starting");
  EXPECT_EQ(run["origin"]["user"], "ann");
  EXPECT_EQ(run["checkpoint_folder"], (home_.folder / "runs/demo/1/checkpoints").string());
  EXPECT_EQ(run["attempts"][0]["nodes"][0]["host"], "a");
  submit();
  const Json list = get("/api/v1/runs?project=demo&limit=1");
  ASSERT_EQ(list["runs"].size(), 1u);
  EXPECT_EQ(list["runs"][0]["id"], "demo/2");
  EXPECT_THAT(list["runs"][0]["attempts"], IsEmpty());
  EXPECT_EQ(get("/api/v1/runs?state=queued")["runs"].size(), 1u);
  EXPECT_EQ(get("/api/v1/runs?project=other")["runs"].size(), 0u);
}

TEST_F(ServerTest, ASubmissionMadeTwiceUnderOneIdAnswersTheSameRun) {
  const auto with = [](std::string_view command, std::string_view id) {
    return format(R"({{"spec":{{"project":"demo","command":["{}"],"working_folder":"/"}},)"
                  R"("request_id":"{}"}})",
                  command, id);
  };
  const std::string body = with("train", "1f0e-77");
  const net::HttpResponse first = call_as_user("POST", "/api/v1/runs", body);
  ASSERT_EQ(first.status, 200) << first.body;
  EXPECT_EQ(parse_json(call_as_user("POST", "/api/v1/runs", body).body)->at("id"), "demo/1");
  EXPECT_EQ(get("/api/v1/runs")["runs"].size(), 1u);
  const net::HttpResponse other = call_as_user("POST", "/api/v1/runs", with("rest", "1f0e-77"));
  EXPECT_EQ(other.status, 400);
  EXPECT_THAT(other.body, HasSubstr("has submitted demo/1"));
  EXPECT_THAT(call_as_user("POST", "/api/v1/runs", with("train", "no name")).body,
              HasSubstr("request_id"));
}

TEST_F(ServerTest, AListOfManyRunsTakesNoMoreQueriesThanOneOfARun) {
  const auto statements = [&] {
    const auto told = std::make_shared<std::promise<std::int64_t>>();
    loop_.post([this, told] { told->set_value(database_->statements_run()); });
    auto count = told->get_future();
    return count.wait_for(seconds(10)) == std::future_status::ready ? count.get() : -1;
  };
  // Timers of the daemon may run meanwhile: the least of some lists.
  const auto of_list = [&](std::size_t runs) {
    auto least = std::numeric_limits<std::int64_t>::max();
    for (int i = 0; i < 10; ++i) {
      const auto before = statements();
      EXPECT_EQ(get("/api/v1/runs?limit=1000")["runs"].size(), runs);
      least = std::min(least, statements() - before);
    }
    return least;
  };
  submit();
  const auto of_one = of_list(1);
  for (int i = 1; i < 30; ++i) submit();
  EXPECT_EQ(of_list(30), of_one);
  EXPECT_LE(of_one, 2);
}

TEST_F(ServerTest, ValuesOfTheEnvironmentAreNotShown) {
  const net::HttpResponse response = call_as_user(
      "POST", "/api/v1/runs",
      R"({"spec":{"project":"demo","command":["a"],"working_folder":"/","env":{"KEY":"s3cret"}}})");
  ASSERT_EQ(response.status, 200) << response.body;
  for (const std::string& body : {response.body, call_as_user("GET", "/api/v1/runs").body,
                                  call_as_user("GET", "/api/v1/runs/demo/1").body}) {
    EXPECT_THAT(body, HasSubstr(R"("env":{"KEY":"***"})"));
    EXPECT_THAT(body, testing::Not(HasSubstr("s3cret")));
  }
}

TEST_F(ServerTest, ARunThatWasCancelledIsResumed) {
  submit();
  EXPECT_EQ(call_as_user("POST", "/api/v1/runs/demo/1/resume", "{}").status, 400)
      << "it has not ended";
  EXPECT_EQ(call_as_user("POST", "/api/v1/runs/demo/2/resume", "{}").status, 404);
  submit();  // waits for the first
  EXPECT_EQ(call_as_user("POST", "/api/v1/runs/demo/2/stop", "{}").status, 200);
  EXPECT_EQ(get("/api/v1/runs/demo/2")["state"], "cancelled");
  const net::HttpResponse resumed = call_as_user("POST", "/api/v1/runs/demo/2/resume", "{}");
  ASSERT_EQ(resumed.status, 200) << resumed.body;
  EXPECT_EQ(parse_json(resumed.body)->at("state"), "queued");
}

TEST_F(ServerTest, WhatIsChangedOfARunIsAmongItsEvents) {
  submit();
  submit();
  EXPECT_EQ(call_as_user("POST", "/api/v1/runs/demo/1/hold", "{}").status, 400)
      << "it does not wait";
  const auto held =
      call_as_user("POST", "/api/v1/runs/demo/2/hold", R"({"by":"ann","reason":"later"})");
  ASSERT_EQ(held.status, 200) << held.body;
  EXPECT_EQ(parse_json(held.body).value()["held"], true);
  EXPECT_EQ(
      call_as_user("POST", "/api/v1/runs/demo/2/priority", R"({"by":"bob","priority":3})").status,
      200);
  EXPECT_EQ(call_as_user("POST", "/api/v1/runs/demo/2/priority", R"({"priority":101})").status,
            400);
  EXPECT_EQ(call_as_user("POST", "/api/v1/runs/demo/2/release", R"({"by":"bob"})").status, 200);
  const Json run = get("/api/v1/runs/demo/2");
  EXPECT_EQ(run["held"], false);
  EXPECT_EQ(run["priority"], 3);
  ASSERT_EQ(run["events"].size(), 3u);
  EXPECT_THAT(run["events"][0]["what"].get<std::string>(),
              AllOf(HasSubstr("held"), HasSubstr("later")));
  EXPECT_EQ(run["events"][1]["by"], "ann");
}

TEST_F(ServerTest, AnExtendedRunHasMoreTimeAndSaysWhoGaveIt) {
  submit();
  const std::string extend = "/api/v1/runs/demo/1/extend";
  EXPECT_EQ(call_as_user("POST", extend, R"({"extension":"0s"})").status, 400);
  EXPECT_EQ(call_as_user("POST", extend, R"({})").status, 400);
  EXPECT_EQ(call_as_user("POST", "/api/v1/runs/demo/9/extend", R"({"extension":"2h"})").status,
            404);
  const auto extended = call_as_user("POST", extend, R"({"extension":"2h"})");
  ASSERT_EQ(extended.status, 200) << extended.body;
  const Json run = get("/api/v1/runs/demo/1");
  EXPECT_EQ(run["time_limit"], "3h");
  EXPECT_EQ(run["spec"]["timeout"], "1h");
  EXPECT_EQ(run["cost"]["so_far_minutes"], 0);
  EXPECT_THAT(run["events"][0]["what"].get<std::string>(), HasSubstr("time limit 3h, it was 1h"));
}

TEST_F(ServerTest, TheQueueSaysWhoWaitsForWhomAndUntilWhen) {
  submit();
  submit();
  const Json queue = get("/api/v1/queue");
  ASSERT_EQ(queue["waiting"].size(), 1u);
  const Json& waits = queue["waiting"][0];
  EXPECT_EQ(waits["run"], "demo/2");
  EXPECT_EQ(waits["user"], "ann");
  EXPECT_EQ(waits["class"], "normal");
  EXPECT_EQ(waits["blocker"], "demo/1");
  ASSERT_EQ(queue["allocations"].size(), 1u);
  EXPECT_EQ(queue["allocations"][0]["hosts"], Json::array({"a"}));
  EXPECT_EQ(waits["expected_start"], queue["allocations"][0]["expected_end"]);
  const Json run = get("/api/v1/runs/demo/2");
  EXPECT_EQ(run["blocker"], "demo/1");
  EXPECT_EQ(run["expected_start"], waits["expected_start"]);
  EXPECT_EQ(run["reason"], waits["reason"]);
}

TEST_F(ServerTest, APlanSubmitsNothing) {
  const std::string spec = R"({"spec":{"project":"demo","command":["train"],"devices":2}})";
  const Json plan = parse_json(call_as_user("POST", "/api/v1/plan", spec).body).value();
  EXPECT_EQ(plan["starts"], true);
  EXPECT_EQ(plan["places"][0]["host"], "a");
  EXPECT_EQ(plan["places"][0]["devices"], Json::array({0, 1}));
  EXPECT_EQ(get("/api/v1/runs")["runs"].size(), 0u);
  submit();
  const Json waits = parse_json(call_as_user("POST", "/api/v1/plan", spec).body).value();
  EXPECT_EQ(waits["starts"], false);
  EXPECT_EQ(waits["blocker"], "demo/1");
  EXPECT_EQ(get("/api/v1/runs")["runs"].size(), 1u);
}

TEST_F(ServerTest, HostsAndLimitsAreShownAndSet) {
  submit();
  const Json host = get("/api/v1/hosts")["hosts"][0];
  EXPECT_EQ(host["state"], "open");
  EXPECT_EQ(host["free"], 0);
  EXPECT_EQ(host["runs"], Json::array({"demo/1"}));
  const auto closed = call_as_user("POST", "/api/v1/hosts",
                                   R"({"host":"a","state":"closed","by":"ann","reason":"loud"})");
  EXPECT_THAT(parse_json(closed.body).value()["hosts"][0]["reason"].get<std::string>(),
              AllOf(HasSubstr("ann"), HasSubstr("loud")));
  EXPECT_EQ(call_as_user("POST", "/api/v1/hosts", R"({"host":"z","state":"open"})").status, 404);
  EXPECT_THAT(get("/api/v1/limits")["limits"], IsEmpty());
  const auto limits =
      call_as_user("POST", "/api/v1/limits", R"({"scope":"project","name":"demo","devices":4})");
  EXPECT_EQ(parse_json(limits.body).value()["limits"][0]["held"], 2);
  const auto weighed =
      call_as_user("POST", "/api/v1/limits", R"({"scope":"project","name":"demo","weight":3})");
  EXPECT_EQ(parse_json(weighed.body).value()["limits"][0]["weight"], 3);
  EXPECT_EQ(parse_json(weighed.body).value()["limits"][0]["devices"], 4) << "it is as it was";
  EXPECT_EQ(
      call_as_user("POST", "/api/v1/limits", R"({"scope":"user","name":"ann","weight":3})").status,
      400);
  EXPECT_EQ(
      call_as_user("POST", "/api/v1/limits", R"({"scope":"project","name":"demo","weight":1})")
          .status,
      200);
  EXPECT_EQ(call_as_user("POST", "/api/v1/limits", R"({"scope":"project","name":"demo"})").status,
            200);
  EXPECT_THAT(get("/api/v1/limits")["limits"], IsEmpty());
}

TEST_F(ServerTest, ACallMayWaitForAChangeOfItsRun) {
  submit();
  const auto version = get("/api/v1/runs/demo/1")["version"].get<std::int64_t>();
  auto waiting = std::async(std::launch::async, [&] {
    return get(format("/api/v1/runs/demo/1?after_version={}&wait=20", version));
  });
  heartbeat("ready");
  EXPECT_GT(waiting.get()["version"].get<std::int64_t>(), version);
}

TEST_F(ServerTest, ABriefViewHasNoAttemptsCheckpointsAndEvents) {
  submit();
  heartbeat("ready", {{"items", {{{"sequence", 1}, {"kind", "checkpoint"}, {"text", "/c"}}}}});
  const Json full = get("/api/v1/runs/demo/1");
  EXPECT_EQ(full["attempts"].size(), 1u);
  EXPECT_EQ(full["checkpoints"].size(), 1u);
  const Json brief = get("/api/v1/runs/demo/1?brief=true");
  EXPECT_EQ(brief["attempts"].size(), 0u);
  EXPECT_EQ(brief["checkpoints"].size(), 0u);
  for (const char* field : {"id", "state", "reason", "version", "spec"})
    EXPECT_EQ(brief[field], full[field]);
}

TEST_F(ServerTest, ACallMayWaitForLines) {
  submit();
  auto waiting =
      std::async(std::launch::async, [&] { return get("/api/v1/runs/demo/1/logs?wait=20"); });
  heartbeat("ready", {{"items", {log(1, 0, "hello")}}});
  EXPECT_THAT(lines(waiting.get()), ElementsAre("hello"));
}

TEST_F(ServerTest, WithoutAChangeAWaitEndsWithItsPatience) {
  submit();
  const auto version = get("/api/v1/runs/demo/1")["version"].get<std::int64_t>();
  const Json run = get(format("/api/v1/runs/demo/1?after_version={}&wait=0.05", version));
  EXPECT_EQ(run["version"], version);
}

TEST_F(ServerTest, AStoreThatFailsIsAnErrorAndNotARun) {
  loop_.post([&] { store_.fail_with(Error{Code::unavailable, "the disk is full"}); });
  const net::HttpResponse response =
      call_as_user("POST", "/api/v1/runs", R"({"spec":{"command":["a"],"working_folder":"/"}})");
  EXPECT_EQ(response.status, 503);
  EXPECT_THAT(response.body, HasSubstr("the disk is full"));
  EXPECT_EQ(get("/api/v1/runs")["runs"].size(), 0u);
}

}  // namespace
}  // namespace lockstep::server

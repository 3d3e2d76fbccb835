// Reports of agents and their answers, and how they show in the views of their run.
#include <chrono>
#include <filesystem>
#include <future>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.h"
#include "base/os/files.h"
#include "base/steady_clock.h"
#include "base/units.h"
#include "net/crypto.h"
#include "platform/api/error.h"
#include "platform/server/server_for_test.h"
#include "text/json.h"

namespace lockstep::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(ServerTest, AnAgentIsToldToStartAndItsItemsAreKeptOnce) {
  submit();
  const Json items = {{"items", {log(1, 0, "one\ntwo"), log(2, 1, "three")}}};
  const Json answer = heartbeat("ready", items);
  EXPECT_EQ(answer["command"], "start");
  EXPECT_EQ(answer["master_address"], "10.0.0.1");
  EXPECT_EQ(answer["rendezvous"], "10.0.0.1:1001");
  EXPECT_EQ(answer["acknowledged"], 2);
  EXPECT_EQ(heartbeat("ready", items)["acknowledged"], 2);
  const Json page = get("/api/v1/runs/demo/1/logs");
  EXPECT_THAT(lines(page), ElementsAre("one", "two", "three"));
  EXPECT_EQ(page["ended"], false);
  const std::string after = format("/api/v1/runs/demo/1/logs?after={}", page["next"].get<int>());
  EXPECT_THAT(lines(get(after)), IsEmpty());
  EXPECT_THAT(lines(get("/api/v1/runs/demo/1/logs?rank=1")), ElementsAre("three"));
  EXPECT_THAT(lines(get("/api/v1/runs/demo/1/logs?limit=1")), ElementsAre("one"));
  const Json tail = get("/api/v1/runs/demo/1/logs?tail=1&rank=0");
  EXPECT_THAT(lines(tail), ElementsAre("two"));
  EXPECT_EQ(tail["next"], page["next"]);
}

TEST_F(ServerTest, WithoutRoomForItsItemsAnAgentKeepsThemAndStillGetsItsCommand) {
  submit();
  const Json items = {{"items", {log(1, 0, net::random_hex(15'000))}}};
  ASSERT_TRUE(database_->execute("pragma max_page_count = 1"));  // as many as there are
  Json answer = heartbeat("ready", items);
  EXPECT_EQ(answer["command"], "start");
  EXPECT_EQ(answer["acknowledged"], 0);
  ASSERT_TRUE(database_->execute("pragma max_page_count = 1000000"));
  EXPECT_EQ(heartbeat("ready", items)["acknowledged"], 1);
}

TEST_F(ServerTest, ASecondAgentOfANodeHasToLeaveAndItsItemsAreCounted) {
  submit();
  const auto agent = [](const char* incarnation, const char* machine, Json items) {
    return Json{{"incarnation", incarnation},
                {"machine", machine},
                {"agent_started", "2026-01-01T00:00:02Z"},
                {"items", std::move(items)}};
  };
  heartbeat("ready", agent("a1", "one", Json::array({log(1, 0, "first")})));
  const Json refused =
      heartbeat("ready", agent("b2", "two", Json::array({log(1, 0, "again"), log(2, 0, "x")})));
  EXPECT_EQ(refused["command"], "leave");
  EXPECT_EQ(refused["acknowledged"], 2) << "or it would keep them, and stay";
  EXPECT_EQ(heartbeat("ready", agent("b2", "two", Json::array()))["command"], "leave");
  const Json answer = heartbeat("ready", agent("a1", "one", Json::array({log(2, 0, "second")})));
  EXPECT_EQ(answer["command"], "start");
  EXPECT_EQ(answer["acknowledged"], 2);
  EXPECT_THAT(lines(get("/api/v1/runs/demo/1/logs")), ElementsAre("first", "second"));
  const Json events = get("/api/v1/runs/demo/1")["events"];
  ASSERT_EQ(events.size(), 1u);
  EXPECT_THAT(events[0]["what"].get<std::string>(),
              testing::AllOf(HasSubstr("a second agent of node 0"),
                             HasSubstr("called from two (since 2026-01-01T00:00:02Z)"),
                             HasSubstr("the node's agent is on one (since 2026-01-01T00:00:02Z)"),
                             HasSubstr("2 items that it sent were not stored")));
}

TEST_F(ServerTest, AnAnswerSetsThePaceOfTheAgentsCalls) {
  submit();
  const Json answer = heartbeat("ready", {{"items", {log(1, 0, std::string(16 << 10, 'x'))}}});
  EXPECT_EQ(answer["interval_seconds"], 0.2);
  EXPECT_LT(answer["batch_pause_seconds"], 0.1);
}

TEST_F(ServerTest, LinesWithoutAnEndAreShownApartUntilTheyEnd) {
  submit();
  const auto unfinished = [](std::string text) {
    return Json{{"unfinished", {{{"rank", 1}, {"text", std::move(text)}}}}};
  };
  heartbeat_of_ranks("running", unfinished("10%"));
  const Json page = get("/api/v1/runs/demo/1/logs");
  EXPECT_THAT(lines(page), testing::IsEmpty());
  ASSERT_EQ(page["unfinished"].size(), 1u);
  EXPECT_EQ(page["unfinished"][0]["text"], "10%");
  EXPECT_EQ(page["unfinished"][0]["rank"], 1);
  EXPECT_EQ(get("/api/v1/runs/demo/1/logs?rank=0")["unfinished"].size(), 0u);

  const auto version = page["unfinished_version"].get<std::int64_t>();
  heartbeat_of_ranks("running", unfinished(std::string(5000, 'x')));
  const Json next = get(format("/api/v1/runs/demo/1/logs?wait=30&unfinished={}", version));
  ASSERT_EQ(next["unfinished"].size(), 1u) << "at once, though no line has come";
  EXPECT_EQ(next["unfinished"][0]["text"].get<std::string>().size(), 1024u);

  heartbeat_of_ranks("running", {{"items", {log(1, 1, "100%")}}});
  const Json ended = get("/api/v1/runs/demo/1/logs");
  EXPECT_THAT(lines(ended), testing::ElementsAre("100%"));
  EXPECT_EQ(ended["unfinished"].size(), 0u);
  EXPECT_NE(ended["unfinished_version"], next["unfinished_version"]);
}

TEST_F(ServerTest, MetricsAndProgressAreSeenWithTheirRun) {
  submit();
  heartbeat("ready", {{"items",
                       {{{"sequence", 1},
                         {"kind", "metrics"},
                         {"step", 3},
                         {"values", {{"loss", 2.5}, {"gap", "NaN"}}}},
                        {{"sequence", 2}, {"kind", "progress"}, {"step", 3}, {"steps", 9}},
                        {{"sequence", 3}, {"kind", "checkpoint"}, {"step", 3}, {"text", "/c"}}}}});
  const Json run = get("/api/v1/runs/demo/1");
  EXPECT_EQ(run["latest"]["loss"], 2.5);
  EXPECT_EQ(run["progress"]["steps"], 9);
  EXPECT_EQ(run["checkpoints"][0]["path"], "/c");
  EXPECT_EQ(get("/api/v1/runs/demo/1/metrics?name=gap")["series"][0]["points"][0]["value"], "NaN");
  EXPECT_EQ(get("/api/v1/runs/demo/1/metrics?after_step=3")["series"].size(), 0u);
}

TEST_F(ServerTest, PointsComeInColumnsAndEachBatchIsStoredOnce) {
  submit();
  heartbeat("ready", Json::object());
  const std::string path = "/api/v1/runs/demo/1/points";
  const auto add = [&](const Json& body) {
    const auto response = call_as_user("POST", path, dump_json(body));
    EXPECT_EQ(response.status, 200) << response.body;
    return parse_json(response.body).value();
  };
  const Json batch = {{"metrics", {"loss", "bad\nname"}},
                      {"steps", {1, 2}},
                      {"values", {{2.5, "NaN"}, {1, 2}}},
                      {"times", {1'000'000, 2'000'000}},
                      {"source", "import-1"},
                      {"sequence", 1}};
  const Json stored = add(batch);
  EXPECT_EQ(stored["stored"], 2);
  EXPECT_EQ(stored["rejected"], 2);
  EXPECT_EQ(stored["reasons"][0]["metric"], "bad\nname");
  EXPECT_EQ(stored["reasons"][1]["step"], 2);
  EXPECT_EQ(add(batch)["repeated"], true);
  const Json points = get("/api/v1/runs/demo/1/metrics?name=loss")["series"][0]["points"];
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[0]["value"], 2.5);
  EXPECT_EQ(points[0]["time"], "1970-01-01T00:00:01Z");
  EXPECT_EQ(points[1]["value"], "NaN");
  const Json run = get("/api/v1/runs/demo/1");
  EXPECT_EQ(run["progress"]["step"], 2);
  EXPECT_EQ(run["latest"]["loss"], "NaN");
  EXPECT_EQ(add({{"metrics", {"loss"}}, {"steps", {3}}, {"values", {{1.5}}}})["stored"], 1);
  for (const auto& [field, value] :
       {std::pair("values", Json::array({{1.0}})), std::pair("times", Json::array({1})),
        std::pair("source", Json("a b")), std::pair("source", Json("")),
        std::pair("sequence", Json(0))}) {
    Json wrong = batch;
    wrong[field] = value;
    const auto refused = call_as_user("POST", path, dump_json(wrong));
    EXPECT_EQ(refused.status, 400) << field;
    EXPECT_NE(refused.body.find(field), std::string::npos) << refused.body;
  }
}

TEST_F(ServerTest, ARunThatHasNotStartedTakesNoPoints) {
  submit();
  submit();  // it waits
  const auto refused = call_as_user("POST", "/api/v1/runs/demo/2/points",
                                    R"({"metrics":["a"],"steps":[1],"values":[[1]]})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("no attempt"), std::string::npos);
}

TEST_F(ServerTest, CurvesOfSeveralRunsComeInOneAnswer) {
  submit();
  submit();
  const auto logs = [](int sequence, int step, double loss) {
    return Json{{"sequence", sequence},
                {"kind", "metrics"},
                {"step", step},
                {"values", {{"loss", loss}, {"tokens", 100 * step}}}};
  };
  heartbeat("ready", {{"items", {logs(1, 3, 2.5), logs(2, 4, 1.5)}}});
  const Json named = get("/api/v1/curves?metric=loss&runs=demo/2,demo/1,demo/9&x_metric=tokens");
  ASSERT_EQ(named["curves"].size(), 3u);
  EXPECT_EQ(named["curves"][0]["run"], "demo/2");
  EXPECT_EQ(named["curves"][0]["known"], true);
  EXPECT_EQ(named["curves"][0]["total"], 0);
  EXPECT_EQ(named["curves"][1]["values"], Json({2.5, 1.5}));
  EXPECT_EQ(named["curves"][1]["x"], Json({300.0, 400.0}));
  EXPECT_EQ(named["curves"][1]["steps"], Json({3, 4}));
  EXPECT_EQ(named["curves"][2]["known"], false);
  const Json newest = get("/api/v1/curves?metric=loss&project=demo&limit=1");
  ASSERT_EQ(newest["curves"].size(), 1u);
  EXPECT_EQ(newest["curves"][0]["run"], "demo/2");
  EXPECT_EQ(newest["more"], true);
  std::string many = "demo/1";
  for (int i = 0; i < 100; ++i) many += ",demo/1";
  for (const std::string& query :
       {std::string("runs=demo"), "runs=" + many, std::string("runs=demo/1&project=demo"),
        std::string("x=time&x_metric=tokens")})
    EXPECT_EQ(call_as_user("GET", "/api/v1/curves?metric=loss&" + query).status, 400) << query;
}

TEST_F(ServerTest, AListNamesTheRanksThatTheOthersWaitFor) {
  submit();
  heartbeat("ready", Json::object());
  const auto rank = [](int number, const char* activity) {
    return Json{
        {"rank", number}, {"local_rank", number}, {"state", "running"}, {"activity", activity}};
  };
  heartbeat("running", {{"ranks", {rank(0, "sleeping"), rank(1, "running")}}});
  EXPECT_EQ(get("/api/v1/runs")["runs"][0]["late"], Json::array());
  auto stopped = rank(1, "stopped");
  stopped["activity_since"] = "2026-01-01T00:00:02Z";
  heartbeat("running", {{"ranks", {rank(0, "sleeping"), stopped}}});
  const Json late = get("/api/v1/runs")["runs"][0]["late"];
  ASSERT_EQ(late.size(), 1u);
  EXPECT_EQ(late[0]["rank"], 1);
  EXPECT_EQ(late[0]["activity"], "stopped");
  EXPECT_EQ(late[0]["since"], "2026-01-01T00:00:02Z");
}

TEST_F(ServerTest, AMomentByTheClockOfAnAgentIsShownByTheClockAsItIsNow) {
  constexpr auto kMonth = std::chrono::hours(24 * 30);  // by which the clock was set
  submit();
  heartbeat("ready", Json::object());
  heartbeat_of_ranks("running");
  const Time now = clock_.now();
  const Json stopped = {{"rank", 0},
                        {"local_rank", 0},
                        {"state", "running"},
                        {"activity", "stopped"},
                        {"activity_since", text(now - std::chrono::seconds(9) - kMonth)}};
  heartbeat("running", {{"ranks", {stopped}},
                        {"boot", steady_.boot_id()},
                        {"clock_zero", text(wall_time_at_boot(clock_, steady_) - kMonth)}});
  const Json late = get("/api/v1/runs")["runs"][0]["late"];
  ASSERT_EQ(late.size(), 1u);
  const Duration ago = now - parse_time(late[0]["since"].get<std::string>()).value();
  EXPECT_GT(ago, std::chrono::seconds(8));
  EXPECT_LT(ago, std::chrono::seconds(10));
}

TEST_F(ServerTest, WhatHappenedToItsRanksIsAmongARunsEvents) {
  submit();
  const auto event = [](int sequence, const char* time, const char* words) {
    return Json{{"sequence", sequence}, {"kind", "event"}, {"time", time}, {"text", words}};
  };
  heartbeat("ready", {{"items",
                       {event(1, "2026-01-01T00:00:02Z", "ranks 0 and 1 go on"),
                        event(2, "2026-01-01T00:00:01Z", "rank 3 was killed by signal 9")}}});
  const Json events = get("/api/v1/runs/demo/1")["events"];
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0]["what"], "rank 3 was killed by signal 9");
  EXPECT_EQ(events[0]["by"], "");
  EXPECT_EQ(events[1]["what"], "ranks 0 and 1 go on");
}

TEST_F(ServerTest, AnAgentOfAnotherStoreGoesOnAndKeepsItsItems) {
  submit();
  const std::string other(16, 'a');
  const Json body = {{"node", text(kNodeId)},   {"state", "ready"},
                     {"address", "10.0.0.1"},   {"master_port", 1000},
                     {"rendezvous_port", 1001}, {"items", {log(7, 0, "x")}}};
  const net::HttpResponse response = call({.method = "POST",
                                           .target = heartbeat_target() + "?generation=" + other,
                                           .headers = {{"Content-Type", "application/json"}},
                                           .body = dump_json(body)},
                                          "Bearer " + keys_->agent_token({other, kNodeId.attempt}));
  ASSERT_EQ(response.status, 200) << response.body;
  const Json answer = parse_json(response.body).value();
  EXPECT_EQ(answer["orphaned"], true);
  EXPECT_EQ(answer["command"], "none");
  EXPECT_EQ(answer["acknowledged"], 0);
  EXPECT_TRUE(lines(get("/api/v1/runs/demo/1/logs")).empty());
  EXPECT_EQ(get("/api/v1/runs/demo/1")["attempts"][0]["nodes"][0]["state"], "allocated");
}

TEST_F(ServerTest, ATokenIsOfOneGeneration) {
  submit();
  const net::HttpResponse response =
      call({.method = "POST",
            .target = heartbeat_target() + "?generation=" + std::string(16, 'a'),
            .headers = {{"Content-Type", "application/json"}},
            .body = "{}"},
           "Bearer " + keys_->agent_token({"", kNodeId.attempt}));
  EXPECT_EQ(response.status, 401);
}

TEST_F(ServerTest, AnAgentWaitsForACommandThatItDoesNotActOn) {
  submit();
  heartbeat("ready");
  auto waiting = std::async(std::launch::async, [&] {
    return heartbeat("ready", {{"known_command", "start"}, {"wait_seconds", 20}});
  });
  EXPECT_EQ(call_as_user("POST", "/api/v1/runs/demo/1/stop", R"({"reason":"enough"})").status, 200);
  EXPECT_THAT(waiting.get()["command"], testing::AnyOf("stop", "leave"));
}

TEST_F(ServerTest, ABadHeartbeatIsRefusedByTheFieldAndTheNearestWord) {
  submit();
  const std::string token = "Bearer " + keys_->agent_token({"", kNodeId.attempt});
  const auto heartbeat_with = [](std::string_view fields) {
    return format(R"({{"node":"demo/1.1/0","state":"ready"{}}})", fields);
  };
  for (const auto& [body, named] :
       {std::pair(std::string(R"({"node":"demo/1.1/1","state":"ready"})"), "node: 'demo/1.1/1'"),
        std::pair(std::string(R"({"node":"demo/1.1/0","state":"reddy"})"),
                  "state: 'reddy' is none of allocated, ready, running, stopping, "
                  "released, lost, did you mean 'ready'?"),
        std::pair(heartbeat_with(R"(,"items":[{"kind":"metric"}])"),
                  "items[0].kind: 'metric' is none of log, metrics, telemetry, progress, "
                  "checkpoint, event, "
                  "did you mean 'metrics'?"),
        std::pair(heartbeat_with(R"(,"ranks":[{"state":"running"},{"state":"dead"}])"),
                  "ranks[1].state: 'dead' is none of running, exited, killed"),
        std::pair(heartbeat_with(R"(,"ranks":[{"state":"running","activity":"sleping"}])"),
                  "ranks[0].activity: 'sleping' is none of"),
        std::pair(heartbeat_with(R"(,"known_command":"halt")"),
                  "known_command: 'halt' is none of none, start, stop, leave")}) {
    const net::HttpResponse response = call({.method = "POST",
                                             .target = heartbeat_target(),
                                             .headers = {{"Content-Type", "application/json"}},
                                             .body = body},
                                            token);
    EXPECT_EQ(response.status, 400) << body;
    EXPECT_THAT(api::error_of(400, response.body).message, HasSubstr(named));
  }
}

TEST_F(ServerTest, ANewerAgentIsHeardThatSaysMoreThanIsKnown) {
  submit();
  const Json answer = heartbeat("ready", {{"items", {log(1, 0, "one")}}, {"mood", "fine"}});
  EXPECT_EQ(answer["acknowledged"], 1);
}

TEST_F(ServerTest, AnAgentIsHeardWhoseLinesCannotBeStored) {
  submit();
  loop_.post([&] { EXPECT_TRUE(database_->execute("drop table log_chunks")); });
  Json body = {{"node", text(kNodeId)}, {"state", "ready"},        {"address", "10.0.0.1"},
               {"master_port", 1000},   {"rendezvous_port", 1001}, {"items", {log(1, 0, "one")}}};
  const net::HttpResponse response = call({.method = "POST",
                                           .target = heartbeat_target(),
                                           .headers = {{"Content-Type", "application/json"}},
                                           .body = dump_json(body)},
                                          "Bearer " + keys_->agent_token({"", kNodeId.attempt}));
  EXPECT_GE(response.status, 500) << response.body;
  EXPECT_EQ(get("/api/v1/runs/demo/1")["attempts"][0]["nodes"][0]["state"], "ready");
}

TEST_F(ServerTest, WhatRanksRecordedIsAskedOfTheirAgentAndKept) {
  submit();
  EXPECT_EQ(heartbeat_of_ranks("running")["flight_wanted"], false);
  const Json before = get("/api/v1/runs/demo/1/flight");
  EXPECT_TRUE(before["delivered"].is_null());
  EXPECT_EQ(before["host"], "a");
  EXPECT_THAT(before["records"], IsEmpty());

  EXPECT_EQ(heartbeat_of_ranks("running")["flight_wanted"], true);
  EXPECT_EQ(heartbeat_of_ranks("running", delivery("QUJD"))["flight_wanted"], false);
  const std::string after = "/api/v1/runs/demo/1/flight?wait=20&after=";
  const Json came = get(after + before["asked"].get<std::string>());
  EXPECT_FALSE(came["delivered"].is_null());
  ASSERT_EQ(came["records"].size(), 1u);
  EXPECT_EQ(came["records"][0]["bytes"], "QUJD");
  EXPECT_EQ(came["asked"], before["asked"]);
  EXPECT_EQ(call_as_user("GET", "/api/v1/runs/demo/1/flight?node=1").status, 404);
  EXPECT_EQ(call_as_user("GET", "/api/v1/runs/demo/2/flight").status, 404);
}

TEST_F(ServerTest, WhoAsksForRecordsIsAnsweredWhenTheyCome) {
  submit();
  heartbeat_of_ranks("running");
  // Delayed, as agents' calls are, until a request comes.
  std::thread agent([&] {
    const Json held = {{"known_command", "none"}, {"wait_seconds", 20}};
    if (heartbeat_of_ranks("running", held)["flight_wanted"] == true)
      heartbeat_of_ranks("running", delivery("QUJD"));
  });
  const Json came = get("/api/v1/runs/demo/1/flight?wait=20");
  agent.join();
  ASSERT_EQ(came["records"].size(), 1u);
  EXPECT_GE(came["delivered"].get<std::string>(), came["asked"].get<std::string>());
}

TEST_F(ServerTest, WhenAllRanksHaveEndedTheirRecordsAreWantedOnce) {
  submit();
  heartbeat_of_ranks("running");
  EXPECT_EQ(heartbeat_of_ranks("exited")["flight_wanted"], true);
  EXPECT_EQ(heartbeat_of_ranks("exited", delivery("QUJD"))["flight_wanted"], false);
  EXPECT_EQ(heartbeat_of_ranks("exited")["flight_wanted"], false);
  EXPECT_EQ(get("/api/v1/runs/demo/1/flight")["records"].size(), 1u);
  // A delivery without records removes none.
  heartbeat_of_ranks("exited", {{"flight", {{"records", Json::array()}}}});
  EXPECT_EQ(get("/api/v1/runs/demo/1/flight")["records"].size(), 1u);
}

TEST_F(ServerTest, RecordsThatAreOnItsOwnMachineAreNotWantedAtTheEnd) {
  submit();
  heartbeat_of_ranks("running");
  const std::filesystem::path folder = home_.folder / "runs/demo/1/attempt-1/node-0/flight";
  ASSERT_TRUE(make_folders(folder));
  ASSERT_TRUE(write_file(folder / "rank-0.world.flight", "x"));
  EXPECT_EQ(heartbeat_of_ranks("exited")["flight_wanted"], false);
}

}  // namespace
}  // namespace lockstep::server

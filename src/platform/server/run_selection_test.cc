// Lists of runs by a query line over HTTP.
#include <future>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.h"
#include "platform/server/server_for_test.h"
#include "platform/store/sql_store.h"
#include "text/json.h"

namespace lockstep::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class RunSelectionTest : public ServerTest {
 protected:
  RunSelectionTest() {
    for (const auto* lr : {"0.1", "2", "10"}) start("demo", lr);
    start("vision", "2");
    copy_rows();
  }

  void start(std::string_view project, std::string_view lr) {
    const auto started = call_as_user(
        "POST", "/api/v1/runs",
        format(R"({{"spec":{{"project":"{}","command":["t","--lr","{}"],"working_folder":"/"}}}})",
               project, lr));
    ASSERT_EQ(started.status, 200) << started.body;
  }
  // The controller of these tests has a store in memory, and queries read the database.
  void copy_rows() {
    const auto done = std::make_shared<std::promise<bool>>();
    loop_.post([this, done] {
      std::vector<model::Change> rows;
      for (const auto& [id, run] : controller_->state().runs) rows.emplace_back(run);
      done->set_value(bool(store::SqlStore(*database_).commit(rows)));
    });
    auto copied = done->get_future();
    ASSERT_EQ(copied.wait_for(std::chrono::seconds(10)), std::future_status::ready);
    ASSERT_TRUE(copied.get());
  }

  static std::vector<std::string> ids(const Json& list) {
    std::vector<std::string> found;
    for (const Json& run : list["runs"]) found.push_back(run["id"]);
    return found;
  }
  Json list(const std::string& query, const std::string& more = "") {
    return get("/api/v1/runs?query=" + query + more);
  }
};

TEST_F(RunSelectionTest, AQuerySelectsAndSortsByASetting) {
  const Json found = list("project:demo%20lr%3E=2%20sort:-lr");
  EXPECT_THAT(ids(found), ElementsAre("demo/3", "demo/2"));
  EXPECT_EQ(found["sorted"], Json({"10", "2"}));
  EXPECT_THAT(found["groups"], IsEmpty());
  EXPECT_THAT(ids(list("project:nope")), IsEmpty());
}

TEST_F(RunSelectionTest, NextContinuesAListAndParametersApplyToo) {
  const Json first = list("sort:lr", "&project=demo&limit=2");
  EXPECT_THAT(ids(first), ElementsAre("demo/1", "demo/2"));
  ASSERT_TRUE(first["next"].is_string());
  const Json rest = list("sort:lr", "&project=demo&limit=2&after=" +
                                        net::percent_encode(first["next"].get<std::string>()));
  EXPECT_THAT(ids(rest), ElementsAre("demo/3"));
  EXPECT_TRUE(rest["next"].is_null());
  EXPECT_THAT(ids(list("lr=2", "&user=nobody")), IsEmpty());
  EXPECT_THAT(ids(list("lr=2", "&state=queued&project=vision")), ElementsAre("vision/1"));
}

TEST_F(RunSelectionTest, GroupsReplaceTheRuns) {
  const Json found = list("group:lr%20sort:lr", "&limit=1");
  EXPECT_THAT(ids(found), IsEmpty());
  ASSERT_EQ(found["groups"].size(), 3u) << found;
  EXPECT_EQ(found["groups"][1]["value"], "2");
  EXPECT_EQ(found["groups"][1]["runs"], 2);
  EXPECT_EQ(found["groups"][1]["sum"], 4);
  EXPECT_EQ(found["groups"][1]["greatest"], 2);
}

TEST_F(RunSelectionTest, WhatCannotBeReadIsRefusedWithItsWord) {
  const auto refused = [this](const std::string& query) {
    const auto response = call_as_user("GET", "/api/v1/runs?query=" + query);
    EXPECT_EQ(response.status, 400) << response.body;
    return response.body;
  };
  EXPECT_THAT(refused("lr%3Cx"), HasSubstr("`lr<x` compares with a number, and `x` is none"));
  EXPECT_THAT(refused("sort:reason"), HasSubstr("sort by a metric"));
  EXPECT_THAT(refused("gpt&sort=loss"), HasSubstr("sort:NAME"));
  EXPECT_THAT(refused("gpt&after=x"), HasSubstr("no `next`"));
}

TEST_F(RunSelectionTest, CurvesAreOfTheRunsOfAQuery) {
  const Json found = get("/api/v1/curves?metric=loss&query=lr%3E=2%20sort:-lr&limit=2");
  ASSERT_EQ(found["curves"].size(), 2u);
  EXPECT_EQ(found["curves"][0]["run"], "demo/3");
  EXPECT_EQ(found["more"], true);
  EXPECT_EQ(call_as_user("GET", "/api/v1/curves?metric=loss&query=group:lr").status, 400);
}

}  // namespace
}  // namespace lockstep::server

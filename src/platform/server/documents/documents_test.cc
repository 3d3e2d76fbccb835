// Views and reports through the API.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/server/server_for_test.h"
#include "text/json.h"

namespace lockstep::server {
namespace {

using testing::HasSubstr;

class DocumentsTest : public ServerTest {
 protected:
  Json save(const Json& body, int status = 200) {
    const net::HttpResponse response = call_as_user("POST", "/api/v1/documents", dump_json(body));
    EXPECT_EQ(response.status, status) << response.body;
    return parse_json(response.body).value();
  }
  static Json report(std::string_view name) {
    return {{"kind", "report"}, {"project", "default"}, {"name", name}, {"text", "# Loss"}};
  }
  static Json view(std::string_view name, std::string_view text = "q=state:failed") {
    return {{"kind", "view"}, {"name", name}, {"text", text}};
  }
};

TEST_F(DocumentsTest, AReportIsSavedListedChangedAndRemoved) {
  const Json made = save(report("weekly"));
  EXPECT_EQ(made["version"], 1);
  EXPECT_EQ(made["may_change"], true);
  const Json listed = get("/api/v1/documents?kind=report&project=default")["documents"];
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0]["name"], "weekly");
  EXPECT_EQ(listed[0]["text"], "") << "lists have no texts of reports";
  Json changed = report("monthly");
  changed["id"] = made["id"];
  changed["version"] = 1;
  EXPECT_EQ(save(changed)["version"], 2);
  EXPECT_THAT(dump_json(save(changed, 400)), HasSubstr("was changed meanwhile"));
  const std::string path = "/api/v1/documents/" + dump_json(made["id"]);
  EXPECT_EQ(get(path)["name"], "monthly");
  EXPECT_EQ(call_as_user("POST", path + "/remove", "").status, 200);
  EXPECT_EQ(call_as_user("GET", path, "").status, 404);
}

TEST_F(DocumentsTest, ARepeatedSaveMakesOneView) {
  const Json made = save(view("failed"));
  EXPECT_EQ(save(view("failed"))["id"], made["id"]);
  EXPECT_THAT(dump_json(save(view("failed", "q=x"), 400)), HasSubstr("another name"));
  const Json listed = get("/api/v1/documents?kind=view")["documents"];
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0]["text"], "q=state:failed");
}

TEST_F(DocumentsTest, WhatCannotBeSavedSaysWhy) {
  EXPECT_THAT(dump_json(save(view(""), 400)), HasSubstr("name:"));
  EXPECT_THAT(dump_json(save(view("two\nlines"), 400)), HasSubstr("on one line"));
  EXPECT_THAT(dump_json(save(view("long", std::string(5000, 'x')), 400)), HasSubstr("at most"));
  Json lacks = report("no project");
  lacks.erase("project");
  EXPECT_THAT(dump_json(save(lacks, 400)), HasSubstr("name the one of the report"));
  Json elsewhere = report("elsewhere");
  elsewhere["project"] = "nowhere";
  EXPECT_THAT(dump_json(save(elsewhere, 404)), HasSubstr("there is no project nowhere"));
}

TEST_F(DocumentsTest, AReportMayBeOfAProjectThatHasOnlyRuns) {
  Json made = report("of runs");
  made["project"] = "demo";
  save(made, 404);
  submit();
  EXPECT_EQ(save(made)["project"], "demo");
}

}  // namespace
}  // namespace lockstep::server

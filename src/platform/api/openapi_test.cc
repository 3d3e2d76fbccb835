#include "platform/api/openapi.h"

#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.h"
#include "platform/api/error.h"
#include "platform/api/paths.h"
#include "platform/api/routes.h"

namespace lockstep::api {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

void collect_references(const Json& value, std::set<std::string>& found) {
  if (value.is_object() && value.contains("$ref")) found.insert(value["$ref"]);
  if (!value.is_structured()) return;
  for (const Json& part : value) collect_references(part, found);
}

TEST(OpenApi, EveryRouteIsDescribedOnceUnderANameOfItsOwn) {
  const Json described = openapi();
  std::set<std::string> names;
  std::size_t count = 0;
  for (const auto& [path, operations] : described["paths"].items())
    for (const auto& [method, operation] : operations.items()) {
      ++count;
      EXPECT_TRUE(names.insert(operation["operationId"]).second) << path;
    }
  EXPECT_EQ(count, kRoutes.size());
  EXPECT_TRUE(names.contains("post_runs_of_of_stop")) << testing::PrintToString(names);
}

TEST(OpenApi, WhatIsReferredToIsThere) {
  const Json described = openapi();
  std::set<std::string> found;
  collect_references(described, found);
  for (const std::string& reference : found)
    EXPECT_TRUE(described.contains(Json::json_pointer(reference.substr(1)))) << reference;
}

TEST(OpenApi, AQueryIsSaidWithItsBoundsAndNames) {
  const Json operation = openapi()["paths"]["/api/v1/runs"]["get"];
  std::map<std::string, Json> schemas;
  for (const Json& parameter : operation["parameters"])
    schemas[parameter["name"]] = parameter["schema"];
  EXPECT_EQ(schemas["state"]["enum"][0], "queued");
  EXPECT_EQ(schemas["limit"]["maximum"], 1000);
  EXPECT_TRUE(schemas.contains("user"));
}

TEST(OpenApi, PlacesOfAPathAreParametersAndAgentsAreDescribedToo) {
  const Json operation = openapi()["paths"][std::string(kHeartbeat.path)]["post"];
  std::vector<std::string> names;
  for (const Json& parameter : operation["parameters"]) names.push_back(parameter["name"]);
  EXPECT_THAT(names, ElementsAre("project", "number", "epoch", "index", "generation"));
  EXPECT_TRUE(operation["responses"].contains("404"));
  EXPECT_TRUE(operation["responses"].contains("413"));
}

TEST(OpenApi, WhatAgentsSayAndHearIsSaidByItsNames) {
  const Json schemas = openapi()["components"]["schemas"];
  const Json& heartbeat = schemas["Heartbeat"]["properties"];
  const auto names_of = [](const Json& schema) {
    return schema["enum"].get<std::vector<std::string>>();
  };
  EXPECT_THAT(names_of(heartbeat["items"]["items"]["properties"]["kind"]),
              ElementsAre("log", "metrics", "telemetry", "progress", "checkpoint", "event"));
  EXPECT_THAT(names_of(heartbeat["ranks"]["items"]["properties"]["state"]),
              ElementsAre("running", "exited", "killed", "lost"));
  EXPECT_EQ(names_of(heartbeat["ranks"]["items"]["properties"]["activity"]).size(),
            all_names<model::Activity>().size());
  EXPECT_EQ(names_of(heartbeat["state"]).size(), all_names<model::NodeState>().size());
  EXPECT_THAT(names_of(heartbeat["known_command"]), ElementsAre("none", "start", "stop", "leave"));
  EXPECT_EQ(schemas["HeartbeatAnswer"]["properties"]["command"]["enum"],
            heartbeat["known_command"]["enum"]);
}

TEST(OpenApi, AnAnswerHasAllItsFieldsAndARequestWhatItNeeds) {
  const Json schemas = openapi()["components"]["schemas"];
  EXPECT_EQ(schemas["RunView"]["required"].size(), schemas["RunView"]["properties"].size());
  EXPECT_EQ(schemas["SubmitRequest"]["required"], Json::array({"spec"}));
  EXPECT_EQ(schemas["RunView"]["properties"]["state"]["enum"].size(),
            all_names<model::RunState>().size());
}

TEST(OpenApi, OnlyHealthAndLogInsAreForAnyone) {
  std::vector<std::string> open;
  for (const Route* route : kRoutes)
    if (route->caller == Caller::anyone)
      open.push_back(format("{} {}", route->method, route->path));
  EXPECT_THAT(open, UnorderedElementsAre("GET /health", "GET /api/v1/login", "POST /api/v1/login",
                                         "POST /api/v1/login/device",
                                         "POST /api/v1/login/device/poll", "POST /api/v1/session"));
  EXPECT_THAT(openapi()["paths"]["/health"]["get"]["security"], IsEmpty());
}

TEST(Errors, HaveTheNamesThatBaseGivesThem) {
  for (const auto& [code, name] : enum_names(Code{})) EXPECT_EQ(text(code), name);
}

TEST(Errors, ComeBackFromTheirBody) {
  const Error error{Code::exhausted, "the disk is full"};
  const Error again = error_of(507, error_body(error));
  EXPECT_EQ(again.code, error.code);
  EXPECT_EQ(again.message, error.message);
  EXPECT_EQ(error_of(502, "<html>").code, Code::unavailable);
  EXPECT_EQ(error_of(400, R"({"error":{"code":"new","message":"m"}})").code, Code::invalid);
}

TEST(Paths, MatchWholePatternsOnly) {
  std::vector<std::string> words;
  EXPECT_TRUE(match_path("/a/{b}/c", {"a", "x", "c"}, words));
  EXPECT_THAT(words, ElementsAre("x"));
  for (const std::vector<std::string>& path :
       {std::vector<std::string>{"a", "x"}, {"a", "x", "d"}, {"a", "x", "c", "d"}, {}})
    EXPECT_FALSE(match_path("/a/{b}/c", path, words));
  EXPECT_EQ(target_of("/a/{b}/c", {"x/y"}, {{"q", "1 2"}, {"r", "3"}}), "/a/x%2Fy/c?q=1%202&r=3");
}

}  // namespace
}  // namespace lockstep::api

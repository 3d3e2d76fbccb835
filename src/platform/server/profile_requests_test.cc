#include <gmock/gmock.h>

#include "platform/server/server_for_test.h"

namespace lockstep::server {
namespace {

using ::testing::HasSubstr;

constexpr auto kProfile = "/api/v1/runs/demo/1/profile";

class ProfileRequestsTest : public ServerTest {
 protected:
  Json ask(const Json& request) {
    const auto response = call_as_user("POST", kProfile, dump_json(request));
    EXPECT_EQ(response.status, 200) << response.body;
    return parse_json(response.body).value();
  }
  std::string refusal(const Json& request) {
    const auto response = call_as_user("POST", kProfile, dump_json(request));
    EXPECT_GE(response.status, 400);
    return parse_json(response.body).value()["error"]["message"];
  }
  // An agent's call with the state of rank 1's trace.
  Json deliver(const Json& trace) {
    Json report = {{"rank", 1}};
    report.update(trace);
    return heartbeat_of_ranks("running",
                              {{"profile", {{"request_id", "a"}, {"ranks", {report}}}}})["profile"];
  }
  Json state_of_rank_1() { return get(std::string(kProfile) + "?request_id=a")["ranks"][0]; }
};

TEST_F(ProfileRequestsTest, AnOrderGoesToTheAgentUntilTheTraceIsComplete) {
  submit();
  EXPECT_TRUE(heartbeat_of_ranks("running")["profile"].is_null());
  const Json view = ask({{"request_id", "a"}, {"ranks", {1}}, {"steps", 3}});
  EXPECT_EQ(view["ranks"][0]["state"], "absent");
  EXPECT_EQ(view["ranks"][0]["host"], "a");

  const Json order = heartbeat_of_ranks("running")["profile"];
  EXPECT_EQ(order["steps"], 3);
  EXPECT_EQ(order["base_us"], view["base_us"]);
  EXPECT_EQ(order["ranks"], (Json{{{"rank", 1}, {"received", 0}}}));
  deliver({{"state", "recording"}, {"steps", 2}});
  EXPECT_EQ(state_of_rank_1()["steps"], 2);

  const Json done = {{"state", "done"}, {"steps", 3}, {"total", 6}};
  Json part = done;
  part.update({{"offset", 0}, {"bytes", "QUJD"}});
  EXPECT_EQ(deliver(part)["ranks"][0]["received"], 3);
  EXPECT_EQ(deliver(part)["ranks"][0]["received"], 3) << "the same call again";
  EXPECT_EQ(state_of_rank_1()["state"], "delivering");
  part.update({{"offset", 3}, {"bytes", "REVG"}});
  EXPECT_TRUE(deliver(part).is_null());
  EXPECT_EQ(state_of_rank_1()["state"], "done");
  const Json trace = get("/api/v1/runs/demo/1/trace?request_id=a&rank=1");
  EXPECT_EQ(trace["bytes"], "QUJDREVG");
  EXPECT_EQ(trace["total"], 6);
  EXPECT_EQ(get("/api/v1/runs/demo/1/trace?request_id=a&rank=1&offset=6")["bytes"], "");
}

TEST_F(ProfileRequestsTest, AWaitingAgentAndAWaitingUserHearOfNews) {
  submit();
  heartbeat_of_ranks("running");
  std::thread agent([&] {
    const Json held = {{"known_command", "none"}, {"wait_seconds", 20}};
    if (heartbeat_of_ranks("running", held)["profile"].is_object())
      deliver({{"state", "failed"}, {"message", "no disk"}});
  });
  const Json asked = ask({{"request_id", "a"}, {"ranks", {1}}});
  const Json came = get(std::string(kProfile) +
                        "?request_id=a&wait=20&after_version=" + dump_json(asked["version"]));
  agent.join();
  EXPECT_EQ(came["ranks"][0]["state"], "failed");
  EXPECT_EQ(came["ranks"][0]["message"], "no disk");
}

TEST_F(ProfileRequestsTest, WrongRequestsAreRefusedWithTheRemedy) {
  submit();
  EXPECT_THAT(refusal({{"request_id", "a"}, {"ranks", {2}}}),
              HasSubstr("demo/1 has no rank 2; its ranks are 0 to 1"));
  EXPECT_THAT(refusal({{"request_id", ""}}), HasSubstr("request_id: must have 1 to 64"));
  EXPECT_THAT(refusal({{"request_id", "a"}, {"steps", 0}}), HasSubstr("steps"));
  EXPECT_EQ(call_as_user("POST", "/api/v1/runs/demo/2/profile", R"({"request_id":"a"})").status,
            404);
  submit();  // no device is left for it
  const auto waiting = call_as_user("POST", "/api/v1/runs/demo/2/profile", R"({"request_id":"a"})");
  EXPECT_THAT(waiting.body, HasSubstr("`lockstep why demo/2`"));
}

TEST_F(ProfileRequestsTest, ANewerRequestReplacesOneAndARepeatedOneDoesNot) {
  submit();
  heartbeat_of_ranks("running");
  const Json first = ask({{"request_id", "a"}, {"steps", 3}});
  deliver({{"state", "recording"}, {"steps", 2}});
  EXPECT_EQ(ask({{"request_id", "a"}, {"steps", 3}})["base_us"], first["base_us"]);
  ask({{"request_id", "b"}, {"ranks", {0}}});
  const auto replaced = call_as_user("GET", std::string(kProfile) + "?request_id=a");
  EXPECT_EQ(replaced.status, 404);
  EXPECT_THAT(replaced.body, HasSubstr("a newer one has replaced it"));
  EXPECT_EQ(heartbeat_of_ranks("running")["profile"]["request_id"], "b");
  EXPECT_EQ(deliver({{"state", "done"}})["request_id"], "b") << "of the older one";
}

}  // namespace
}  // namespace lockstep::server

// Several users call the API: what each may do and see, and what the audit has of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/api/error.h"
#include "platform/api/proof.h"
#include "platform/server/people/reader.h"
#include "platform/server/server_for_test.h"

namespace lockstep::server {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// ann is the daemon's user. bob, cid and dora are a manager, a member and a viewer of the project
// demo, eve is in none.
class PeopleTest : public ServerTest {
 protected:
  PeopleTest() {
    post("/api/v1/projects", R"({"name":"demo"})");
    for (const std::string user : {"bob", "cid", "dora", "eve"}) {
      post("/api/v1/users", R"({"name":")" + user + R"("})");
      tokens_[user] = new_token(R"({"user":")" + user + R"("})");
    }
    for (auto [user, role] :
         {std::pair("bob", "manager"), std::pair("cid", "member"), std::pair("dora", "viewer")})
      post("/api/v1/projects/demo/members", format(R"({{"user":"{}","role":"{}"}})", user, role));
  }
  Json post(const std::string& target, const std::string& body = "") {
    const net::HttpResponse response = call_as_user("POST", target, body);
    EXPECT_EQ(response.status, 200) << target << body << response.body;
    return parse_json(response.body).value();
  }
  std::string new_token(const std::string& request) {
    return post("/api/v1/tokens", request)["token"];
  }
  net::HttpResponse call_as(const std::string& user, const std::string& method,
                            const std::string& target, const std::string& body = "") {
    return call({.method = method,
                 .target = target,
                 .headers = {{"Content-Type", "application/json"}},
                 .body = body},
                "Bearer " + (user == "ann" ? user_token_ : tokens_.at(user)));
  }
  int status_as(const std::string& user, const std::string& method, const std::string& target,
                const std::string& body = "") {
    return call_as(user, method, target, body).status;
  }
  Json get_as(const std::string& user, const std::string& target) {
    const net::HttpResponse response = call_as(user, "GET", target);
    EXPECT_EQ(response.status, 200) << user << target << response.body;
    return parse_json(response.body).value();
  }
  net::HttpResponse submit_as(const std::string& user, const std::string& more) {
    return call_as(user, "POST", "/api/v1/runs",
                   R"({"spec":{"name":"n","command":["train"],"devices":2,"working_folder":"/")" +
                       more + R"(},"origin":{"user":"ann"}})");
  }
  static std::string message_of(const net::HttpResponse& response) {
    return api::error_of(response.status, response.body).message;
  }

  std::map<std::string, std::string> tokens_;
};

TEST_F(PeopleTest, ARunOfAnotherProjectDoesNotExist) {
  submit();
  for (const char* part : {"", "/logs", "/metrics", "/flight", "/profile?request_id=x", "/stop"}) {
    const std::string method = std::string(part) == "/stop" ? "POST" : "GET";
    const auto hidden = call_as("eve", method, std::string("/api/v1/runs/demo/1") + part, "{}");
    const auto missing = call_as("eve", method, std::string("/api/v1/runs/none/1") + part, "{}");
    EXPECT_EQ(hidden.status, 404) << part;
    EXPECT_EQ(message_of(hidden), "there is no run demo/1; `lockstep ps` lists them");
    EXPECT_EQ(message_of(missing), "there is no run none/1; `lockstep ps` lists them");
  }
  for (const std::string user : {"ann", "bob", "cid", "dora"}) {
    EXPECT_EQ(status_as(user, "GET", "/api/v1/runs/demo/1"), 200) << user;
    EXPECT_EQ(get_as(user, "/api/v1/runs")["runs"].size(), 1U) << user;
  }
  EXPECT_TRUE(get_as("eve", "/api/v1/runs")["runs"].empty());
  EXPECT_TRUE(get_as("eve", "/api/v1/runs?project=demo")["runs"].empty());
  EXPECT_EQ(get_as("eve", "/api/v1/queue")["allocations"][0]["run"], kOtherRun);
  for (const char* list : {"/api/v1/queue", "/api/v1/hosts", "/api/v1/runs", "/api/v1/projects",
                           "/api/v1/limits", "/api/v1/version"})
    EXPECT_THAT(dump_json(get_as("eve", list)), Not(HasSubstr("demo"))) << list;
  for (const char* run : {"demo/1", "none/1"}) {
    const Json curve = get_as("eve", std::string("/api/v1/curves?metric=loss&runs=") + run);
    EXPECT_EQ(curve["curves"][0]["known"], false) << run;
    EXPECT_EQ(curve["curves"][0]["run"], run);
  }
  EXPECT_TRUE(get_as("eve", "/api/v1/curves?metric=loss")["curves"].empty());
  EXPECT_TRUE(get_as("eve", "/api/v1/curves?metric=loss&project=demo")["curves"].empty());
  EXPECT_EQ(get_as("eve", "/api/v1/hosts")["hosts"][0]["free"], 0);
  EXPECT_EQ(status_as("eve", "GET", "/api/v1/runs?project=demo"), 200);
}

TEST_F(PeopleTest, ARoleSaysWhatItsUserMayDo) {
  submit();
  const std::string of_ann = "/api/v1/runs/demo/1/priority", raise = R"({"priority":1})";
  EXPECT_EQ(status_as("dora", "POST", of_ann, raise), 403);
  EXPECT_EQ(status_as("cid", "POST", of_ann, raise), 403) << "it is not its own";
  EXPECT_EQ(status_as("bob", "POST", of_ann, raise), 200);
  EXPECT_THAT(message_of(call_as("cid", "POST", of_ann, raise)),
              HasSubstr("cid may not do this in the project demo: it needs a manager"));
  EXPECT_EQ(submit_as("dora", R"(,"project":"demo")").status, 403);
  EXPECT_EQ(submit_as("eve", R"(,"project":"demo")").status, 403);
  ASSERT_EQ(submit_as("cid", R"(,"project":"demo")").status, 200);
  EXPECT_EQ(status_as("cid", "POST", "/api/v1/runs/demo/2/stop", "{}"), 200);
  for (const std::string user : {"bob", "cid", "dora", "eve"}) {
    EXPECT_EQ(status_as(user, "POST", "/api/v1/hosts", R"({"host":"a","state":"drained"})"), 403);
    EXPECT_EQ(status_as(user, "GET", "/api/v1/users"), 403);
    EXPECT_EQ(status_as(user, "POST", "/api/v1/users", R"({"name":"x"})"), 403);
  }
  const std::string members = "/api/v1/projects/demo/members";
  EXPECT_EQ(status_as("cid", "POST", members, R"({"user":"eve","role":"viewer"})"), 403);
  EXPECT_EQ(status_as("eve", "POST", members, R"({"user":"eve","role":"viewer"})"), 404);
  EXPECT_EQ(status_as("bob", "POST", members, R"({"user":"eve","role":"viewer"})"), 200);
  EXPECT_EQ(status_as("eve", "GET", "/api/v1/runs/demo/1"), 200);
}

TEST_F(PeopleTest, TheUserOfARunIsThatOfTheToken) {
  const auto run = parse_json(submit_as("cid", R"(,"project":"demo")").body).value();
  EXPECT_EQ(run["origin"]["user"], "cid");
  call_as("bob", "POST", "/api/v1/runs/demo/1/priority", R"({"priority":1,"by":"ann"})");
  EXPECT_EQ(get("/api/v1/runs/demo/1")["events"][0]["by"], "bob");
}

TEST_F(PeopleTest, ALimitHoldsForTheUserOfTheToken) {
  post("/api/v1/limits", R"({"scope":"user","name":"cid","devices":1})");
  EXPECT_THAT(message_of(submit_as("cid", R"(,"project":"demo")")),
              HasSubstr("the user cid may hold 1"));
  EXPECT_EQ(submit_as("bob", R"(,"project":"demo")").status, 200);
  EXPECT_EQ(get_as("cid", "/api/v1/limits")["limits"].size(), 1U);
  EXPECT_EQ(get_as("bob", "/api/v1/limits")["limits"].size(), 0U);
}

TEST_F(PeopleTest, ARunWithoutAProjectIsInItsUsersOwn) {
  EXPECT_EQ(parse_json(submit_as("eve", "").body).value()["id"], "eve/1");
  EXPECT_EQ(get_as("eve", "/api/v1/runs/default/1")["id"], "eve/1");
  EXPECT_EQ(get_as("eve", "/api/v1/runs?project=default")["runs"][0]["id"], "eve/1");
  EXPECT_EQ(parse_json(submit_as("ann", "").body).value()["id"], "default/1");
  EXPECT_EQ(parse_json(submit_as("eve", R"(,"after":["default/1"])").body).value()["spec"]["after"],
            Json({"eve/1"}));
  EXPECT_EQ(get_as("eve", "/api/v1/whoami")["default_project"], "eve");
}

TEST_F(PeopleTest, ErrorsNameNoRunOfAnotherProject) {
  submit();
  EXPECT_EQ(message_of(submit_as("eve", R"(,"after":["demo/1"])")),
            "after: there is no run demo/1; a run follows those that were submitted before it, and "
            "`lockstep ps` lists them");
  const std::string folder = folder_.path().string() + "/c";
  ASSERT_EQ(submit_as("ann", R"(,"project":"demo","checkpoint_folder":")" + folder + "\"").status,
            200);
  EXPECT_THAT(message_of(submit_as("eve", R"(,"checkpoint_folder":")" + folder + "\"")),
              AllOf(HasSubstr(kOtherRun), Not(HasSubstr("demo/2"))));
}

TEST_F(PeopleTest, ARequestIdShowsNoRunOfAnotherUser) {
  const std::string body =
      R"({"spec":{"name":"n","command":["train"],"project":"demo","working_folder":"/"},)"
      R"("request_id":"r1"})";
  EXPECT_EQ(status_as("cid", "POST", "/api/v1/runs", body), 200);
  EXPECT_EQ(status_as("cid", "POST", "/api/v1/runs", body), 200);
  EXPECT_THAT(message_of(call_as("bob", "POST", "/api/v1/runs", body)),
              HasSubstr("another user has used it"));
}

TEST_F(PeopleTest, ATokenIsRefusedOnceItIsRevokedOrItsUserIsDisabled) {
  EXPECT_EQ(status_as("eve", "GET", "/api/v1/whoami"), 200);
  post("/api/v1/users/eve", R"({"disabled":true})");
  EXPECT_EQ(status_as("eve", "GET", "/api/v1/whoami"), 401);
  post("/api/v1/users/eve", R"({"disabled":false})");
  EXPECT_EQ(status_as("eve", "GET", "/api/v1/whoami"), 200);
  const std::string id = get_as("eve", "/api/v1/whoami")["token"];
  EXPECT_EQ(status_as("bob", "POST", "/api/v1/tokens/" + id + "/revoke"), 404);
  EXPECT_EQ(status_as("eve", "POST", "/api/v1/tokens/" + id + "/revoke"), 200);
  EXPECT_EQ(status_as("eve", "GET", "/api/v1/whoami"), 401);
  tokens_["bob"].back() = tokens_["bob"].back() == 'a' ? 'b' : 'a';
  EXPECT_EQ(status_as("bob", "GET", "/api/v1/whoami"), 401) << "forged";
  post("/api/v1/users/cid/remove");
  EXPECT_EQ(status_as("cid", "GET", "/api/v1/whoami"), 401);
}

TEST_F(PeopleTest, ATokenEndsAtItsTime) {
  tokens_["short"] = new_token(R"({"user":"bob","expires":"1us"})");
  EXPECT_EQ(status_as("short", "GET", "/api/v1/whoami"), 401);
  for (const char* wrong : {"0s", "-1s", "4000d"})
    EXPECT_EQ(status_as("ann", "POST", "/api/v1/tokens",
                        format(R"({{"user":"bob","expires":"{}"}})", wrong)),
              400)
        << wrong;
}

TEST_F(PeopleTest, ATokenGivesNoMoreThanItsBounds) {
  tokens_["bounded"] = new_token(R"({"project":"demo","role":"viewer"})");
  submit();
  ASSERT_EQ(submit_as("ann", R"(,"project":"other")").status, 200);
  EXPECT_EQ(status_as("bounded", "GET", "/api/v1/runs/demo/1"), 200);
  EXPECT_EQ(status_as("bounded", "GET", "/api/v1/runs/other/1"), 404);
  EXPECT_EQ(get_as("bounded", "/api/v1/runs")["runs"].size(), 1U);
  EXPECT_EQ(status_as("bounded", "POST", "/api/v1/runs/demo/1/stop", "{}"), 403);
  EXPECT_EQ(status_as("bounded", "GET", "/api/v1/users"), 403);
  EXPECT_EQ(status_as("bounded", "POST", "/api/v1/tokens", "{}"), 403);
  EXPECT_EQ(get_as("bounded", "/api/v1/whoami")["admin"], false);
}

TEST_F(PeopleTest, AManagerHasServiceAccountsAndTheirTokens) {
  EXPECT_EQ(status_as("cid", "POST", "/api/v1/projects/demo/services", R"({"name":"ci"})"), 403);
  ASSERT_EQ(status_as("bob", "POST", "/api/v1/projects/demo/services", R"({"name":"ci"})"), 200);
  const auto made = call_as("bob", "POST", "/api/v1/tokens", R"({"user":"ci"})");
  ASSERT_EQ(made.status, 200) << made.body;
  tokens_["ci"] = parse_json(made.body).value()["token"];
  EXPECT_EQ(parse_json(submit_as("ci", "").body).value()["id"], "demo/1");
  EXPECT_EQ(status_as("bob", "GET", "/api/v1/tokens?user=ci"), 200);
  EXPECT_EQ(status_as("bob", "GET", "/api/v1/tokens?user=cid"), 403);
  EXPECT_EQ(status_as("bob", "POST", "/api/v1/tokens", R"({"user":"cid"})"), 403);
  EXPECT_EQ(status_as("ci", "POST", "/api/v1/tokens", "{}"), 403);
}

TEST_F(PeopleTest, AUserCannotHaveTheNameOfAProjectWithRuns) {
  ASSERT_EQ(submit_as("ann", R"(,"project":"lab")").status, 200);
  EXPECT_THAT(message_of(call_as("ann", "POST", "/api/v1/users", R"({"name":"lab"})")),
              HasSubstr("there are runs of a project lab"));
  EXPECT_EQ(status_as("ann", "POST", "/api/v1/projects", R"({"name":"lab"})"), 200);
}

TEST_F(PeopleTest, TheAuditHasEachChangeAndEachRefusal) {
  submit();
  call_as("bob", "POST", "/api/v1/runs/demo/1/priority", R"({"priority":3})");
  call_as("eve", "GET", "/api/v1/runs/demo/1");
  call_as("dora", "POST", "/api/v1/runs/demo/1/stop", "{}");
  const Json records = get("/api/v1/audit?limit=4")["records"];
  ASSERT_EQ(records.size(), 4U);
  const auto shown = [](const Json& record) {
    return format("{} {} {} {}: {} > {}{}", record["user"].get<std::string>(),
                  record["action"].get<std::string>(), record["target"].get<std::string>(),
                  record["project"].get<std::string>(), record["before"].get<std::string>(),
                  record["after"].get<std::string>(), record["refused"].get<bool>() ? "!" : "");
  };
  EXPECT_THAT(shown(records[0]), AllOf(HasSubstr("dora run.stop demo/1 demo"), HasSubstr("!")));
  EXPECT_THAT(shown(records[1]), AllOf(HasSubstr("eve read_run demo/1 demo"), HasSubstr("!")));
  EXPECT_EQ(shown(records[2]), "bob run.priority demo/1 demo: priority 0 > priority 3");
  EXPECT_EQ(shown(records[3]), "ann run.submit demo/1 demo:  > queued");
  EXPECT_EQ(records[2]["token"], get_as("bob", "/api/v1/whoami")["token"]);
  EXPECT_THAT(dump_json(get_as("cid", "/api/v1/audit")), Not(HasSubstr("demo")))
      << "it manages its own project only";
  EXPECT_EQ(status_as("bob", "GET", "/api/v1/audit?project=eve"), 403);
  EXPECT_EQ(status_as("bob", "GET", "/api/v1/audit?project=demo"), 200);
}

TEST_F(PeopleTest, TheDaemonProvesThatItKnowsAUsersToken) {
  const std::string nonce = api::new_nonce();
  const std::string id = get_as("eve", "/api/v1/whoami")["token"];
  EXPECT_EQ(get("/health?token=" + id + "&nonce=" + nonce)["proof"],
            api::daemon_proof(tokens_["eve"], url_.port, nonce));
  EXPECT_EQ(call_as_user("GET", "/health?token=unknown&nonce=" + nonce).status, 403);
}

TEST_F(PeopleTest, NoAnswerHasATokenButTheOneThatMakesIt) {
  for (const char* list : {"/api/v1/tokens?user=eve", "/api/v1/users", "/api/v1/audit?limit=1000"})
    EXPECT_THAT(dump_json(get(list)), Not(HasSubstr(tokens_["eve"].substr(17)))) << list;
}

}  // namespace
}  // namespace lockstep::server

// Log-ins by passwords and the rights on secrets, over HTTP. tests/oidc has log-ins at an issuer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/server/login/login_token.h"
#include "platform/server/people/secret_calls.h"
#include "platform/server/server_for_test.h"

namespace lockstep::server {
namespace {

using testing::HasSubstr;

constexpr auto kOwn = "a password of her own";

class LoginTest : public ServerTest {
 protected:
  // Without a token.
  net::HttpResponse call_without_token(const std::string& target, const Json& body) {
    return call({.method = "POST",
                 .target = target,
                 .headers = {{"Content-Type", "application/json"}},
                 .body = dump_json(body)},
                std::nullopt);
  }
  net::HttpResponse call_with(const std::string& token, const std::string& method,
                              const std::string& target, const std::string& body = "") {
    return call({.method = method,
                 .target = target,
                 .headers = {{"Content-Type", "application/json"}},
                 .body = body},
                "Bearer " + token);
  }
  net::HttpResponse log_in(const std::string& user, const std::string& password) {
    return call_without_token("/api/v1/login", {{"user", user}, {"password", password}});
  }
  // A user with a password of its own; returns the token of its log-in.
  std::string add_user(const std::string& name) {
    call_as_user("POST", "/api/v1/users", dump_json({{"name", name}}));
    const auto first =
        parse_json(call_as_user("POST", format("/api/v1/users/{}/password", name), "{}").body);
    const auto answer = call_without_token(
        "/api/v1/login",
        {{"user", name}, {"password", (*first)["password"]}, {"new_password", kOwn}});
    return parse_json(answer.body).value()["token"];
  }
  void set_role(const std::string& user, const std::string& role) {
    call_as_user("POST", "/api/v1/projects/demo/members",
                 dump_json({{"user", user}, {"role", role}}));
  }
};

TEST_F(LoginTest, AFirstPasswordGivesNoTokenWithoutANewOne) {
  call_as_user("POST", "/api/v1/users", R"({"name":"eve"})");
  call_as_user("POST", "/api/v1/users/eve/password", R"({"password":"the first one"})");
  const auto answer = log_in("eve", "the first one");
  EXPECT_EQ(answer.status, 200);
  const Json json = parse_json(answer.body).value();
  EXPECT_EQ(json["token"], "");
  EXPECT_EQ(json["needs_new_password"], true);
  EXPECT_EQ(call_as_user("POST", "/api/v1/users/eve/password", R"({"password":"short"})").status,
            400);
  EXPECT_EQ(call_as_user("POST", "/api/v1/users/nobody/password", "{}").status, 404);
}

TEST_F(LoginTest, ATokenOfALogInHasTheRightsOfItsUserUntilTheLogout) {
  const std::string token = add_user("eve");
  EXPECT_EQ(call_with(token, "GET", "/api/v1/whoami").status, 200);
  EXPECT_EQ(call_with(token, "GET", "/api/v1/users").status, 403);
  EXPECT_EQ(call_with(token, "POST", "/api/v1/users/eve/password", "{}").status, 403);
  EXPECT_EQ(call_with(token, "POST", "/api/v1/logout").status, 200);
  EXPECT_EQ(call_with(token, "GET", "/api/v1/whoami").status, 401);
  EXPECT_THAT(call_as_user("POST", "/api/v1/logout").body, HasSubstr("is no log-in"));
}

TEST_F(LoginTest, AUserWithoutAPasswordGetsItsFirstOneFromAnAdministrator) {
  call_as_user("POST", "/api/v1/users", R"({"name":"eve"})");
  const auto made = call_as_user("POST", "/api/v1/tokens", R"({"user":"eve"})");
  const std::string token = parse_json(made.body).value()["token"];
  const std::string request = R"({"new_password":"eve's own one"})";
  EXPECT_THAT(call_with(token, "POST", "/api/v1/password", request).body,
              HasSubstr("lockstep user passwd eve"));
  EXPECT_EQ(call_as_user("POST", "/api/v1/password", request).status, 200);
  EXPECT_EQ(log_in("ann", "eve's own one").status, 200);
}

TEST_F(LoginTest, ServiceAccountsHaveNoPassword) {
  call_as_user("POST", "/api/v1/projects", R"({"name":"demo"})");
  call_as_user("POST", "/api/v1/projects/demo/services", R"({"name":"ci"})");
  EXPECT_THAT(call_as_user("POST", "/api/v1/users/ci/password", "{}").body,
              HasSubstr("service account"));
  EXPECT_EQ(log_in("ci", "anything else").status, 403);
}

TEST_F(LoginTest, RefusedLogInsAreInTheAudit) {
  add_user("eve");
  EXPECT_EQ(log_in("eve", "not her password").status, 403);
  const Json newest = get("/api/v1/audit?user=eve")["records"][0];
  EXPECT_EQ(newest["action"], "user.login");
  EXPECT_EQ(newest["refused"], true);
}

TEST_F(LoginTest, SecretsAreSetByManagersUsedByMembersAndUnknownToOthers) {
  call_as_user("POST", "/api/v1/projects", R"({"name":"demo"})");
  std::map<std::string, std::string> tokens;
  for (const std::string role : {"manager", "member", "viewer"}) {
    tokens[role] = add_user("a-" + role);
    set_role("a-" + role, role);
  }
  tokens["stranger"] = add_user("a-stranger");
  const auto status = [&](const std::string& role, const std::string& method,
                          const std::string& part, const std::string& body = "") {
    return call_with(tokens.at(role), method, "/api/v1/projects/demo/secrets" + part, body).status;
  };
  const std::string value = R"({"value":"hunter2"})";
  EXPECT_EQ(status("stranger", "POST", "/key", value), 404);
  EXPECT_EQ(status("viewer", "POST", "/key", value), 403);
  EXPECT_EQ(status("member", "POST", "/key", value), 403);
  EXPECT_EQ(status("manager", "POST", "/key", value), 200);
  EXPECT_EQ(status("manager", "POST", "/key", R"({"value":""})"), 400);
  EXPECT_EQ(status("stranger", "GET", ""), 404);
  EXPECT_EQ(status("viewer", "GET", ""), 403);
  EXPECT_EQ(status("member", "GET", ""), 200);
  EXPECT_EQ(secret_value(store_, *keys_, "demo", "key").value(), "hunter2");
  EXPECT_EQ(secret_value(store_, *keys_, "demo", "other").error().code, Code::not_found);
  const auto other = host::Keys::from_values(net::Secret::random(), "token");
  EXPECT_EQ(secret_value(store_, other, "demo", "key").error().code, Code::corrupt);
  EXPECT_EQ(status("member", "POST", "/key/remove"), 403);
  EXPECT_EQ(status("manager", "POST", "/key/remove"), 200);
  EXPECT_EQ(status("manager", "POST", "/key/remove"), 404);
}

TEST(LoginToken, TheOldestOfAHundredEnds) {
  identity::Directory directory;
  directory.daemon_user = "ann";
  identity::apply(directory, identity::first_rows(directory, Time()));
  std::string first;
  for (int i = 0; i < 101; ++i) {
    const auto made =
        make_login_token(directory, "ann", kPasswordLogin, Time(std::chrono::seconds(i))).value();
    if (i == 0) first = made.answer.token;
    identity::apply(directory, made.changes);
  }
  EXPECT_EQ(directory.tokens.size(), 100U);
  EXPECT_EQ(identity::find_token(directory, first, Time()), nullptr);
  const auto kept = directory.tokens.begin()->first;
  identity::apply(directory, end_password_logins(directory, "ann", kept));
  EXPECT_EQ(directory.tokens.size(), 1U);
}

}  // namespace
}  // namespace lockstep::server

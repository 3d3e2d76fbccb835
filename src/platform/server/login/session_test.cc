// Log-ins to the page: the cookie, the calls that it proves, and those that it does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/steady_clock.h"
#include "platform/server/login/cookies.h"
#include "platform/server/login/login_token.h"
#include "platform/server/login/session_login.h"
#include "platform/server/server_for_test.h"

namespace lockstep::server {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr auto kPassword = "a password of her own";

class SessionTest : public ServerTest {
 protected:
  net::HttpResponse log_in(const Json& body) {
    return call({.method = "POST",
                 .target = "/api/v1/session",
                 .headers = {{"Content-Type", "application/json"}},
                 .body = dump_json(body)},
                std::nullopt);
  }
  static std::string set_cookie_of(const net::HttpResponse& response) {
    return std::string(response.headers.find("Set-Cookie").value_or(""));
  }
  // The name and the value, as a browser sends them.
  static std::string cookie_in(const net::HttpResponse& response) {
    const std::string set = set_cookie_of(response);
    return set.substr(0, set.find(';'));
  }
  std::string session_of(const Json& body) {
    const auto answer = log_in(body);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return cookie_in(answer);
  }
  // As the page of the daemon calls.
  net::HttpResponse call_by(const std::string& cookie, const std::string& method,
                            const std::string& target, net::Headers more = {}) {
    more.add("Cookie", cookie);
    more.add("Content-Type", "application/json");
    const bool reads = method == "GET" || method == "HEAD";
    return call({.method = method,
                 .target = target,
                 .headers = std::move(more),
                 .body = reads || method == "DELETE" ? "" : "{}"},
                std::nullopt);
  }
  // A service account's token is one with bounds: it cannot make another.
  std::string service_token() {
    call_as_user("POST", "/api/v1/projects", R"({"name":"demo"})");
    call_as_user("POST", "/api/v1/projects/demo/services", R"({"name":"ci"})");
    const auto made = call_as_user("POST", "/api/v1/tokens", R"({"user":"ci"})");
    return parse_json(made.body).value()["token"];
  }
  std::string code() {
    return parse_json(call_as_user("POST", "/api/v1/session/code").body).value()["code"];
  }
  std::string cookie_name() { return format("lockstep_session_{}", server_->port()); }
  int status_of(const std::string& cookie) {
    return call_by(cookie, "GET", "/api/v1/whoami").status;
  }
  const net::Headers from_page_{{"X-Lockstep-Page", "1"}};
};

TEST_F(SessionTest, ATokenGivesACookieThatOnlyThisDaemonAndNoScriptGets) {
  const auto answer = log_in({{"token", user_token_}});
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(parse_json(answer.body).value()["user"], "ann");
  EXPECT_THAT(answer.body, Not(HasSubstr(user_token_)));
  const std::string cookie = set_cookie_of(answer);
  EXPECT_THAT(cookie, StartsWith(cookie_name() + "=lst_"));
  EXPECT_THAT(cookie, HasSubstr("; HttpOnly; Path=/; SameSite=Strict; Max-Age="));
  EXPECT_THAT(cookie, Not(HasSubstr("Secure")));
  EXPECT_THAT(session_cookie("c", "t", Time(), Time(), true), HasSubstr("; Secure"));
}

TEST_F(SessionTest, TheCookieHasTheRightsOfItsUser) {
  const std::string cookie = session_of({{"token", user_token_}});
  EXPECT_EQ(status_of(cookie), 200);
  EXPECT_EQ(call_by(cookie, "GET", "/api/v1/users").status, 200);
  EXPECT_EQ(call_by(cookie_name() + "=lst_no", "GET", "/api/v1/whoami").status, 401);
  EXPECT_EQ(call_by("session=1", "GET", "/api/v1/whoami").status, 401);
}

TEST_F(SessionTest, TheLogOutRevokesTheTokenOfTheSession) {
  const std::string cookie = session_of({{"token", user_token_}});
  const auto ended = call_by(cookie, "DELETE", "/api/v1/session", from_page_);
  EXPECT_EQ(ended.status, 200) << ended.body;
  EXPECT_THAT(set_cookie_of(ended), StartsWith(cookie_name() + "=; HttpOnly"));
  EXPECT_THAT(set_cookie_of(ended), HasSubstr("Max-Age=0"));
  EXPECT_EQ(status_of(cookie), 401);
  EXPECT_EQ(call_by(cookie, "DELETE", "/api/v1/session", from_page_).status, 401);
  EXPECT_EQ(call_as_user("GET", "/api/v1/whoami").status, 200);
}

TEST_F(SessionTest, ATokenWithBoundsIsTheSessionsAndStaysAfterTheLogOut) {
  const std::string token = service_token();
  const std::string cookie = session_of({{"token", token}});
  EXPECT_EQ(cookie, cookie_name() + "=" + token);
  EXPECT_EQ(call_by(cookie, "DELETE", "/api/v1/session", from_page_).status, 200);
  EXPECT_EQ(call({.method = "GET", .target = "/api/v1/whoami"}, "Bearer " + token).status, 200);
}

TEST_F(SessionTest, ASessionEndsNoLaterThanItsToken) {
  const auto made = call_as_user("POST", "/api/v1/tokens", R"({"name":"short","expires":"2h"})");
  ASSERT_EQ(made.status, 200) << made.body;
  const auto answer = log_in({{"token", parse_json(made.body).value()["token"]}});
  const std::string cookie = set_cookie_of(answer);
  const std::size_t at = cookie.find("Max-Age=");
  ASSERT_NE(at, std::string::npos) << cookie;
  const int seconds = std::stoi(cookie.substr(at + 8));
  EXPECT_LE(seconds, 7200);
  EXPECT_GE(seconds, 7200 - 60) << "the log-in takes less than a minute";
}

TEST_F(SessionTest, ARevokedTokenEndsItsSession) {
  const std::string token = service_token();
  const std::string cookie = session_of({{"token", token}});
  const Json me = parse_json(call_by(cookie, "GET", "/api/v1/whoami").body).value();
  EXPECT_EQ(call_as_user("POST", format("/api/v1/tokens/{}/revoke", me["token"].get<std::string>()))
                .status,
            200);
  EXPECT_EQ(status_of(cookie), 401);
}

TEST_F(SessionTest, APasswordGivesASessionToo) {
  call_as_user("POST", "/api/v1/users", R"({"name":"eve"})");
  call_as_user("POST", "/api/v1/users/eve/password", R"({"password":"the first one"})");
  const auto first = log_in({{"user", "eve"}, {"password", "the first one"}});
  EXPECT_EQ(parse_json(first.body).value()["needs_new_password"], true);
  EXPECT_EQ(set_cookie_of(first), "");
  const std::string cookie =
      session_of({{"user", "eve"}, {"password", "the first one"}, {"new_password", kPassword}});
  EXPECT_EQ(status_of(cookie), 200);
  EXPECT_EQ(call_by(cookie, "GET", "/api/v1/users").status, 403);
  const auto wrong = log_in({{"user", "eve"}, {"password", "not her password"}});
  EXPECT_EQ(wrong.status, 403);
  EXPECT_EQ(set_cookie_of(wrong), "");
}

TEST_F(SessionTest, ACodeBeginsOneSession) {
  const std::string once = code();
  const std::string cookie = session_of({{"code", once}});
  EXPECT_EQ(status_of(cookie), 200);
  const auto again = log_in({{"code", once}});
  EXPECT_EQ(again.status, 403);
  EXPECT_THAT(again.body, HasSubstr("lockstep open"));
  EXPECT_EQ(set_cookie_of(again), "");
}

TEST_F(SessionTest, OnlyATokenWithoutBoundsGetsACode) {
  const auto refused =
      call({.method = "POST", .target = "/api/v1/session/code"}, "Bearer " + service_token());
  EXPECT_EQ(refused.status, 403);
  EXPECT_EQ(call({.method = "POST", .target = "/api/v1/session/code"}, std::nullopt).status, 401);
}

TEST_F(SessionTest, ACodeOfARevokedTokenIsNone) {
  const auto made = parse_json(call_as_user("POST", "/api/v1/tokens", R"({"name":"t"})").body);
  const std::string token = (*made)["token"];
  const auto got = call({.method = "POST", .target = "/api/v1/session/code"}, "Bearer " + token);
  ASSERT_EQ(got.status, 200) << got.body;
  call({.method = "POST",
        .target = format("/api/v1/tokens/{}/revoke", token.substr(4, 12)),
        .headers = {{"Content-Type", "application/json"}},
        .body = ""},
       "Bearer " + user_token_);
  EXPECT_EQ(log_in({{"code", parse_json(got.body).value()["code"]}}).status, 403);
}

TEST_F(SessionTest, ALogInHasOneWay) {
  for (const Json& body :
       {Json::object(), Json{{"token", "t"}, {"code", "c"}}, Json{{"user", "ann"}},
        Json{{"password", "p"}}, Json{{"token", "t"}, {"password", "p"}},
        Json{{"code", "c"}, {"new_password", "p"}}})
    EXPECT_EQ(log_in(body).status, 400) << dump_json(body);
  EXPECT_EQ(log_in({{"token", "lst_wrong"}}).status, 403);
  EXPECT_EQ(log_in({{"token", ""}}).status, 403);
  EXPECT_EQ(log_in({{"code", ""}}).status, 403);
}

TEST_F(SessionTest, AFormOfAnotherPageCannotLogIn) {
  const auto answer = call({.method = "POST",
                            .target = "/api/v1/session",
                            .headers = {{"Content-Type", "text/plain"}},
                            .body = dump_json({{"token", user_token_}})},
                           std::nullopt);
  EXPECT_EQ(answer.status, 415);
  EXPECT_EQ(set_cookie_of(answer), "");
}

TEST_F(SessionTest, AnotherPageCannotCallByTheCookie) {
  const std::string cookie = session_of({{"token", user_token_}});
  const std::string own = format("http://127.0.0.1:{}", url_.port);
  const auto stop = [&](net::Headers headers) {
    return call_by(cookie, "POST", "/api/v1/session/code", std::move(headers)).status;
  };
  EXPECT_EQ(stop({}), 403);
  EXPECT_EQ(stop({{"X-Lockstep-Page", "0"}}), 403);
  EXPECT_EQ(stop({{"Origin", own}}), 403);
  for (const char* origin : {"http://127.0.0.1:1", "http://evil.example", "null", ""})
    EXPECT_EQ(stop({{"X-Lockstep-Page", "1"}, {"Origin", origin}}), 403) << origin;
  for (const char* site : {"same-site", "cross-site", "none"})
    EXPECT_EQ(stop({{"X-Lockstep-Page", "1"}, {"Sec-Fetch-Site", site}}), 403) << site;
  const auto allowed = [&](net::Headers headers) {
    return call_by(cookie, "DELETE", "/api/v1/session?no_such=1", std::move(headers)).status;
  };
  EXPECT_EQ(allowed({{"X-Lockstep-Page", "1"}}), 400);
  EXPECT_EQ(allowed({{"X-Lockstep-Page", "1"}, {"Origin", own}, {"Sec-Fetch-Site", "same-origin"}}),
            400);
}

TEST_F(SessionTest, TheCookieReadsWithoutTheHeaderButNotForAnotherPage) {
  const std::string cookie = session_of({{"token", user_token_}});
  const auto read = [&](net::Headers headers, const char* method = "GET") {
    return call_by(cookie, method, "/api/v1/whoami", std::move(headers)).status;
  };
  EXPECT_EQ(read({}), 200);
  EXPECT_EQ(read({}, "HEAD"), 200);
  EXPECT_EQ(read({{"Sec-Fetch-Site", "none"}}), 200);
  EXPECT_EQ(read({{"Sec-Fetch-Site", "same-origin"}}), 200);
  EXPECT_EQ(read({{"Sec-Fetch-Site", "same-site"}}), 403);
  EXPECT_EQ(read({{"Sec-Fetch-Site", "cross-site"}}), 403);
  EXPECT_EQ(read({{"Origin", "http://127.0.0.1:1"}}), 403);
}

TEST_F(SessionTest, ACallOfThisOriginBehindAProxyWithAnotherHostIsItsPages) {
  const std::string cookie = session_of({{"token", user_token_}});
  const auto write = [&](std::string site) {
    return call_by(cookie, "POST", "/api/v1/tokens",
                   {{"X-Lockstep-Page", "1"},
                    {"Origin", "https://page.example"},
                    {"Sec-Fetch-Site", std::move(site)}})
        .status;
  };
  EXPECT_EQ(write("same-origin"), 200);
  EXPECT_EQ(write("same-site"), 403);
  EXPECT_EQ(write("none"), 403);
}

TEST_F(SessionTest, ASessionThatATokenMadeEndsWhenTheTokenIsRevoked) {
  const auto made = call_as_user("POST", "/api/v1/tokens", R"({"name":"laptop"})");
  ASSERT_EQ(made.status, 200) << made.body;
  const Json token = parse_json(made.body).value();
  const std::string cookie = session_of({{"token", token["token"]}});
  EXPECT_EQ(status_of(cookie), 200);
  const std::string id = token["about"]["id"];
  EXPECT_EQ(call_as_user("POST", "/api/v1/tokens/" + id + "/revoke").status, 200);
  EXPECT_EQ(status_of(cookie), 401);
}

TEST_F(SessionTest, ALogInRevokesTheSessionWhoseCookieItReplaces) {
  const std::string first = session_of({{"token", user_token_}});
  const auto second = call({.method = "POST",
                            .target = "/api/v1/session",
                            .headers = {{"Content-Type", "application/json"}, {"Cookie", first}},
                            .body = dump_json({{"token", user_token_}})},
                           std::nullopt);
  ASSERT_EQ(second.status, 200) << second.body;
  EXPECT_EQ(status_of(first), 401);
  EXPECT_EQ(status_of(cookie_in(second)), 200);
}

TEST_F(SessionTest, ATokenInTheHeadNeedsNoPage) {
  const auto answer =
      call({.method = "POST",
            .target = "/api/v1/session/code",
            .headers = {{"Cookie", cookie_name() + "=x"}, {"Origin", "http://evil.example"}}},
           "Bearer " + user_token_);
  EXPECT_EQ(answer.status, 200) << answer.body;
}

TEST_F(SessionTest, NoAgentAndNoHostCallsByACookie) {
  const std::string token = keys_->agent_token({"", kNodeId.attempt});
  EXPECT_EQ(call_by(cookie_name() + "=" + token, "POST", heartbeat_target(), from_page_).status,
            401);
}

TEST_F(SessionTest, LogInsAreInTheAudit) {
  session_of({{"token", user_token_}});
  const Json newest = get("/api/v1/audit?user=ann")["records"][0];
  EXPECT_EQ(newest["action"], "user.login");
  EXPECT_EQ(newest["after"], "by a token, to the page");
}

TEST_F(SessionTest, TheWaysToLogInAreNoSecret) {
  const auto answer = call({.method = "GET", .target = "/api/v1/login"}, std::nullopt);
  EXPECT_EQ(answer.status, 200);
  const Json json = parse_json(answer.body).value();
  EXPECT_EQ(json["password"], true);
  EXPECT_EQ(json["oidc"], false);
}

// From another machine, whose answers go nowhere: only refusals are returned.
TEST_F(SessionTest, FailedTokensAndCodesMakeTheirAddressWaitAndNoOther) {
  identity::LoginThrottle throttle;
  const auto accounts = Accounts::open(store_, clock_, "ann").value();
  PasswordLogin passwords(loop_, *accounts, throttle, clock_);
  SessionLogin sessions(passwords, throttle, *accounts, *keys_, clock_, /*is_https=*/true);
  const auto refusal_of = [&](const std::string& address, const api::SessionRequest& request) {
    RouteCall<api::kSession> call;
    call.caller.address = address;
    call.request = request;
    const auto begun = sessions.begin(call, Reply<api::SessionAnswer>(net::Responder(nullptr)));
    return begun ? std::string() : begun.error().message;
  };
  int failures = 0;  // each one beyond the fifth waits twice as long as the one before
  const api::SessionRequest wrong[] = {{.token = "lst_wrong"}, {.code = "wrong"}};
  while (failures < 20 &&
         !refusal_of("10.0.0.5", wrong[failures % 2]).starts_with("there were too many"))
    ++failures;
  EXPECT_GE(failures, 5);
  EXPECT_LT(failures, 20);
  for (int i = 0; i < 10; ++i) throttle.fail("10.0.0.5", MonotonicClock().since_boot());
  EXPECT_THAT(refusal_of("10.0.0.5", {.token = user_token_}), HasSubstr("too many failed"));
  EXPECT_THAT(refusal_of("10.0.0.5", {.user = "ann", .password = "a password"}),
              HasSubstr("too many failed"));
  EXPECT_THAT(refusal_of("10.0.0.6", {.token = "lst_wrong"}), HasSubstr("the token is wrong"));
  EXPECT_THAT(refusal_of("", {.token = "lst_wrong"}), HasSubstr("the token is wrong"));
}

TEST(Cookies, AreFoundByTheirWholeName) {
  net::HttpRequest request;
  request.headers = {{"Cookie", "a=1; lockstep_session_x=2;b=x=y"},
                     {"cookie", "lockstep_session=3"}};
  EXPECT_EQ(cookie_of(request, "a"), "1");
  EXPECT_EQ(cookie_of(request, "b"), "x=y");
  EXPECT_EQ(cookie_of(request, "lockstep_session"), "3");
  EXPECT_EQ(cookie_of(request, "session"), "");
}

TEST(Cookies, OfDaemonsOfOneHostHaveNamesOfTheirOwn) {
  const auto name = [](std::string host) {
    net::HttpRequest request;
    request.headers = {{"Host", std::move(host)}};
    return session_cookie_of(request).name;
  };
  EXPECT_EQ(name("head:7070"), "lockstep_session_7070");
  EXPECT_EQ(name("head:7071"), "lockstep_session_7071");
  EXPECT_EQ(name("[::1]:7070"), "lockstep_session_7070");
  EXPECT_EQ(name("[::1]"), "lockstep_session");
  EXPECT_EQ(name("head.example"), "lockstep_session");
}

TEST(Cookies, OfASessionEndWithItsToken) {
  const Time now = Time(std::chrono::hours(1));
  EXPECT_THAT(session_cookie("c", "t", now + std::chrono::seconds(90), now, false),
              HasSubstr("Max-Age=90"));
  EXPECT_THAT(session_cookie("c", "t", std::nullopt, now, false), HasSubstr("Max-Age=2592000"));
}

}  // namespace
}  // namespace lockstep::server

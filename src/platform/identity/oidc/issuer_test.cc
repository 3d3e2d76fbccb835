#include "platform/identity/oidc/issuer.h"

#include <chrono>
#include <deque>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/http/url.h"
#include "platform/identity/oidc/signing_key_for_test.h"

namespace lockstep::identity {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kIssuer = "https://id.example/realm";
constexpr auto kDiscoveryUrl = "https://id.example/realm/.well-known/openid-configuration";
constexpr auto kTokenUrl = "https://id.example/token";
constexpr auto kKeysUrl = "https://id.example/keys";
constexpr auto kDeviceUrl = "https://id.example/device";

class ManualTime : public Clock {
 public:
  Time now() const override { return now_; }
  Time now_ = Time(seconds(1'800'000'000));
};

// Answers each address with what the test gave for it; the last answer stays.
class ScriptedIssuer : public IssuerHttp {
 public:
  Result<IssuerAnswer> send(const IssuerRequest& request, const Deadline&) override {
    requests.push_back(request);
    auto& given = answers[request.url];
    if (given.empty()) return Error{Code::unavailable, "no server"};
    IssuerAnswer answer = given.front();
    if (given.size() > 1) given.pop_front();
    return answer;
  }
  void answer(const std::string& url, const Json& body, int status = 200) {
    answers[url].push_back({status, dump_json(body)});
  }
  std::size_t calls_of(const std::string& url) const {
    return static_cast<std::size_t>(
        std::ranges::count(requests, url, [](const auto& each) { return each.url; }));
  }

  std::map<std::string, std::deque<IssuerAnswer>> answers;
  std::vector<IssuerRequest> requests;
};

class IssuerTest : public ::testing::Test {
 protected:
  IssuerTest() {
    http_.answer(kDiscoveryUrl, discovery_);
    http_.answer(kKeysUrl, {{"keys", {key_.public_json()}}});
  }

  Json claims() const {
    const auto now = std::chrono::duration_cast<seconds>(clock_.now().time_since_epoch()).count();
    return {{"iss", kIssuer}, {"aud", "lockstep"}, {"sub", "u1"}, {"iat", now}, {"exp", now + 600}};
  }
  void answer_token(const Json& claims) {
    http_.answer(kTokenUrl, {{"access_token", "x"}, {"id_token", key_.sign(claims)}});
  }
  Issuer issuer(const std::string& secret = "") {
    return Issuer({kIssuer, "lockstep", secret}, http_, clock_);
  }

  const Deadline deadline_ = Deadline::after(seconds(10));
  const SigningKey key_ = SigningKey::ec("k1");
  Json discovery_ = {{"issuer", kIssuer},
                     {"authorization_endpoint", "https://id.example/auth"},
                     {"token_endpoint", kTokenUrl},
                     {"jwks_uri", kKeysUrl},
                     {"device_authorization_endpoint", kDeviceUrl},
                     {"scopes_supported", {"openid"}}};
  ManualTime clock_;
  ScriptedIssuer http_;
};

TEST_F(IssuerTest, StartsTheDeviceFlowAndPollsUntilTheUserAgrees) {
  http_.answer(kDeviceUrl, {{"device_code", "dc"},
                            {"user_code", "ABCD-EFGH"},
                            {"verification_uri", "https://id.example/code"},
                            {"expires_in", 600}});
  http_.answer(kTokenUrl, {{"error", "authorization_pending"}}, 400);
  http_.answer(kTokenUrl, {{"error", "slow_down"}}, 400);
  answer_token(claims());
  Issuer issuer = this->issuer();

  const DeviceCodes codes = issuer.start_device("openid profile", deadline_).value();
  EXPECT_EQ(codes.user_code, "ABCD-EFGH");
  EXPECT_FALSE(issuer.poll_device("dc", deadline_).value().claims);
  EXPECT_TRUE(issuer.poll_device("dc", deadline_).value().is_too_fast);
  EXPECT_EQ(issuer.poll_device("dc", deadline_).value().claims.value().subject, "u1");
  EXPECT_EQ(form_text(*http_.requests[1].form), "scope=openid%20profile&client_id=lockstep");
  EXPECT_EQ(http_.calls_of(kDiscoveryUrl), 1u);
}

TEST_F(IssuerTest, ARefusalOfTheUserAndAnEndedCodeAreErrors) {
  http_.answer(kTokenUrl, {{"error", "access_denied"}, {"error_description", "no\nway"}}, 400);
  http_.answer(kTokenUrl, {{"error", "expired_token"}}, 400);
  Issuer issuer = this->issuer();
  EXPECT_EQ(issuer.poll_device("dc", deadline_).error().message,
            "the issuer refused the log-in: no?way");
  EXPECT_THAT(issuer.poll_device("dc", deadline_).error().message, HasSubstr("log in again"));
}

TEST_F(IssuerTest, SendsTheBrowserWithStateNonceAndChallenge) {
  const CodeSecrets secrets{"s1", "n1", "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"};
  const std::string url =
      issuer().authorization_url(secrets, "openid", "https://head:7070/back", deadline_).value();
  // The challenge is the example of RFC 7636, appendix B.
  EXPECT_EQ(url,
            "https://id.example/auth?response_type=code&client_id=lockstep&redirect_uri=https%3A%2F"
            "%2Fhead%3A7070%2Fback&scope=openid&state=s1&nonce=n1&code_challenge="
            "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256");
}

TEST_F(IssuerTest, ExchangesACodeForATokenOfThisLogInOnly) {
  Json of_this = claims(), of_another = claims();
  of_this["nonce"] = "n1";
  of_another["nonce"] = "n2";
  answer_token(of_this);
  answer_token(of_another);
  answer_token(claims());
  Issuer issuer = this->issuer("a secret/1");
  const CodeSecrets secrets{"s1", "n1", "v1"};
  EXPECT_TRUE(issuer.exchange_code(secrets, "c1", "https://head/back", deadline_));
  EXPECT_THAT(issuer.exchange_code(secrets, "c1", "https://head/back", deadline_).error().message,
              HasSubstr("nonce"));
  EXPECT_FALSE(issuer.exchange_code(secrets, "c1", "https://head/back", deadline_));
  EXPECT_EQ(http_.requests[1].authorization, "Basic bG9ja3N0ZXA6YSUyMHNlY3JldCUyRjE=");
  EXPECT_EQ(form_text(*http_.requests[1].form),
            "grant_type=authorization_code&code=c1&redirect_uri=https%3A%2F%2Fhead%2Fback&"
            "code_verifier=v1");
}

TEST_F(IssuerTest, SendsItsSecretInTheFormIfTheIssuerTakesNothingElse) {
  discovery_["token_endpoint_auth_methods_supported"] = {"client_secret_post"};
  http_.answers[kDiscoveryUrl] = {{200, dump_json(discovery_)}};
  answer_token(claims());
  EXPECT_TRUE(issuer("s").poll_device("dc", deadline_));
  EXPECT_THAT(form_text(*http_.requests[1].form), HasSubstr("client_id=lockstep&client_secret=s"));
  EXPECT_EQ(http_.requests[1].authorization, "");
}

TEST_F(IssuerTest, AsksForTheKeysAgainForANewKeyButOnceAMinute) {
  const SigningKey next = SigningKey::ec("k2");
  Issuer issuer = this->issuer();
  EXPECT_TRUE(issuer.check(key_.sign(claims()), std::nullopt, deadline_));
  const auto check_next = [&] {
    return issuer.check(next.sign(claims()), std::nullopt, deadline_);
  };
  EXPECT_THAT(check_next().error().message, HasSubstr("no key"));
  EXPECT_EQ(http_.calls_of(kKeysUrl), 1u);
  clock_.now_ += seconds(61);
  EXPECT_FALSE(check_next());
  EXPECT_FALSE(check_next());
  EXPECT_EQ(http_.calls_of(kKeysUrl), 2u);
  clock_.now_ += seconds(61);
  http_.answers[kKeysUrl] = {{200, dump_json({{"keys", {next.public_json()}}})}};
  EXPECT_TRUE(check_next());
}

TEST_F(IssuerTest, AKeyThatTheIssuerRemovedIsRefusedWithinAnHour) {
  Issuer issuer = this->issuer();
  EXPECT_TRUE(issuer.check(key_.sign(claims()), std::nullopt, deadline_));
  http_.answers[kKeysUrl] = {{200, dump_json({{"keys", {SigningKey::ec("k2").public_json()}}})}};
  clock_.now_ += minutes(61);
  EXPECT_FALSE(issuer.check(key_.sign(claims()), std::nullopt, deadline_));
}

TEST_F(IssuerTest, AWrongDescriptionIsReportedWithTheOption) {
  const auto error_with = [&](const char* name, const Json& value) {
    Json changed = discovery_;
    changed[name] = value;
    http_.answers[kDiscoveryUrl] = {{200, dump_json(changed)}};
    return issuer().start_device("openid", deadline_).error().message;
  };
  EXPECT_THAT(error_with("issuer", "https://other"),
              AllOf(HasSubstr("https://other"), HasSubstr("--oidc-issuer")));
  EXPECT_THAT(error_with("token_endpoint", "http://id.example/token"), HasSubstr("not https"));
  EXPECT_THAT(error_with("jwks_uri", 7), HasSubstr("jwks_uri"));
  EXPECT_THAT(error_with("device_authorization_endpoint", Json()), HasSubstr("no device flow"));
  http_.answers[kDiscoveryUrl] = {{502, "<html>"}};
  EXPECT_THAT(issuer().start_device("openid", deadline_).error().message, HasSubstr("status 502"));
}

TEST(IssuerUrl, IsHttpsOrOnLoopback) {
  EXPECT_TRUE(check_issuer_url("issuer", "https://id.example/realm"));
  EXPECT_TRUE(check_issuer_url("issuer", "http://127.0.0.1:9000"));
  EXPECT_TRUE(check_issuer_url("issuer", "http://[::1]:9000/x?y=1"));
  for (const char* url : {"http://id.example", "ftp://id.example", "id.example", "https://",
                          "https://id.example/#x", ""})
    EXPECT_FALSE(check_issuer_url("issuer", url)) << url;
}

}  // namespace
}  // namespace lockstep::identity

#include "platform/identity/oidc/id_token.h"

#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.h"
#include "net/base64.h"
#include "platform/identity/oidc/key_set.h"
#include "platform/identity/oidc/signing_key_for_test.h"

namespace lockstep::identity {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

const Time kNow = Time(seconds(1'800'000'000));  // 2027-01-15T08:00:00Z

std::int64_t unix_seconds(Time time) {
  return std::chrono::duration_cast<seconds>(time.time_since_epoch()).count();
}

Json good_claims() {
  return {{"iss", "https://issuer"},
          {"aud", "lockstep"},
          {"sub", "u-17"},
          {"nonce", "n1"},
          {"iat", unix_seconds(kNow)},
          {"exp", unix_seconds(kNow + minutes(60))},
          {"preferred_username", "ann"}};
}

Result<Claims> check(const Json& claims) {
  return check_claims(dump_json(claims), {"https://issuer", "lockstep", "n1"}, kNow);
}

std::string refusal_of(const char* name, const Json& value) {
  Json claims = good_claims();
  claims[name] = value;
  const auto checked = check(claims);
  return checked ? "accepted" : checked.error().message;
}

TEST(IdToken, HasItsSubjectAndClaims) {
  const Claims claims = check(good_claims()).value();
  EXPECT_EQ(claims.subject, "u-17");
  EXPECT_EQ(claims.all["preferred_username"], "ann");
}

TEST(IdToken, IsRefusedWithoutAClaimThatItNeeds) {
  for (const char* name : {"iss", "aud", "sub", "nonce", "iat", "exp"}) {
    Json claims = good_claims();
    claims.erase(name);
    EXPECT_FALSE(check(claims)) << name;
    claims[name] = Json::object();
    EXPECT_FALSE(check(claims)) << name;
  }
  EXPECT_FALSE(check(Json::array()));
  EXPECT_FALSE(check_claims("no JSON", {"https://issuer", "lockstep"}, kNow));
}

TEST(IdToken, OfAnotherIssuerClientOrLogInIsRefused) {
  EXPECT_THAT(refusal_of("iss", "https://issuer/"), HasSubstr("another issuer"));
  EXPECT_THAT(refusal_of("aud", "other"), HasSubstr("another client"));
  EXPECT_THAT(refusal_of("aud", Json::array({"a", "b"})), HasSubstr("another client"));
  EXPECT_THAT(refusal_of("nonce", "n2"), HasSubstr("another log-in"));
}

TEST(IdToken, ForSeveralClientsNamesOursAsItsParty) {
  EXPECT_EQ(refusal_of("aud", Json::array({"lockstep"})), "accepted");
  EXPECT_THAT(refusal_of("aud", Json::array({"lockstep", "b"})), HasSubstr("another client"));
  EXPECT_THAT(refusal_of("azp", "b"), HasSubstr("another client"));
  Json claims = good_claims();
  claims["aud"] = Json::array({"lockstep", "b"});
  claims["azp"] = "lockstep";
  EXPECT_TRUE(check(claims));
}

TEST(IdToken, WithoutAnExpectedNonceMayHaveNone) {
  Json claims = good_claims();
  claims.erase("nonce");
  EXPECT_TRUE(check_claims(dump_json(claims), {"https://issuer", "lockstep"}, kNow));
}

TEST(IdToken, HasAMinuteOfTolerance) {
  EXPECT_EQ(refusal_of("iat", unix_seconds(kNow + seconds(60))), "accepted");
  EXPECT_EQ(refusal_of("exp", unix_seconds(kNow - seconds(59))), "accepted");
  EXPECT_THAT(refusal_of("exp", unix_seconds(kNow - seconds(60))), HasSubstr("ended at"));
  EXPECT_NE(refusal_of("exp", -5), "accepted");
  EXPECT_NE(refusal_of("exp", 1e300), "accepted");
}

TEST(IdToken, AClockThatIsTenMinutesOffIsNamedWithBothTimes) {
  EXPECT_THAT(
      refusal_of("iat", unix_seconds(kNow + minutes(10))),
      AllOf(HasSubstr("issued at 2027-01-15T08:10:00Z"),
            HasSubstr("this machine's clock says 2027-01-15T08:00:00Z"), HasSubstr("behind")));
  EXPECT_THAT(
      refusal_of("iat", unix_seconds(kNow - minutes(10))),
      AllOf(HasSubstr("issued at 2027-01-15T07:50:00Z"),
            HasSubstr("this machine's clock says 2027-01-15T08:00:00Z"), HasSubstr("ahead")));
}

class Signatures : public ::testing::Test {
 protected:
  static KeySet keys_of(std::initializer_list<const SigningKey*> keys) {
    Json all = Json::array();
    for (const SigningKey* key : keys) all.push_back(key->public_json());
    return KeySet::parse(dump_json({{"keys", all}})).value();
  }
  static std::string base64url(const std::string& text) {
    return net::to_base64url(std::as_bytes(std::span(text)));
  }

  // Made once: an RSA key takes 100 ms.
  static inline const SigningKey rsa_ = SigningKey::rsa("r1");
  static inline const SigningKey ec_ = SigningKey::ec("e1");
  const KeySet keys_ = keys_of({&rsa_, &ec_});
};

TEST_F(Signatures, OfBothAlgorithmsAreAccepted) {
  EXPECT_EQ(keys_.size(), 2u);
  for (const SigningKey* key : {&rsa_, &ec_})
    EXPECT_EQ(keys_.verified_payload(key->sign(good_claims())).value(), dump_json(good_claims()));
}

TEST_F(Signatures, WithoutTheKeysIdAreTriedWithEachKey) {
  EXPECT_TRUE(keys_.verified_payload(rsa_.named("").sign(good_claims())));
}

TEST_F(Signatures, OfAnotherKeyAreForged) {
  for (const SigningKey& other : {SigningKey::rsa("r1"), SigningKey::ec("e1")}) {
    const auto payload = keys_.verified_payload(other.sign(good_claims()));
    EXPECT_EQ(payload.error().code, Code::denied);
    EXPECT_THAT(payload.error().message, HasSubstr("forged"));
  }
}

TEST_F(Signatures, OfAChangedTokenAreForged) {
  std::string token = rsa_.sign(good_claims());
  Json claims = good_claims();
  claims["preferred_username"] = "admin";
  const auto first = token.find('.'), last = token.rfind('.');
  token.replace(first + 1, last - first - 1, base64url(dump_json(claims)));
  EXPECT_EQ(keys_.verified_payload(token).error().code, Code::denied);
}

TEST_F(Signatures, OfAnUnknownKeyAreReported) {
  EXPECT_EQ(keys_.verified_payload(SigningKey::rsa("r2").sign(good_claims())).error().code,
            Code::not_found);
  // A key is not used for the algorithm of another type.
  EXPECT_EQ(keys_.verified_payload(SigningKey::ec("r1").sign(good_claims())).error().code,
            Code::not_found);
}

TEST_F(Signatures, ByNoAlgorithmOrByTheSharedSecretOfAPublicKeyAreRefused) {
  const std::string payload = base64url(dump_json(good_claims()));
  for (const char* algorithm : {"none", "None", "NONE", "HS256", "RS384", ""}) {
    const std::string head = base64url(dump_json({{"alg", algorithm}, {"kid", "r1"}}));
    for (const char* signature : {"", "AAAA"})
      EXPECT_FALSE(keys_.verified_payload(head + "." + payload + "." + signature)) << algorithm;
  }
  const std::string public_key = dump_json(rsa_.public_json());
  const auto forged =
      keys_.verified_payload(SigningKey::shared_secret("r1", public_key).sign(good_claims()));
  EXPECT_THAT(forged.error().message, HasSubstr("another algorithm"));
}

TEST_F(Signatures, OfTextThatIsNoTokenAreRefused) {
  for (const std::string& words : {std::string(), std::string("."), std::string(".."),
                                   std::string("a.b.c"), std::string(100'000, 'x')})
    EXPECT_EQ(keys_.verified_payload(words).error().code, Code::denied);
}

TEST(KeySet, LeavesOutKeysThatItDoesNotTake) {
  Json all = Json::array({SigningKey::rsa("short", 1024).public_json(),
                          SigningKey::ec("p384", CJOSE_JWK_EC_P_384).public_json(),
                          {{"kty", "oct"}, {"k", "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2U"}},
                          {{"kty", "OKP"}, {"crv", "Ed25519"}, {"x", "AAAA"}},
                          "no key"});
  Json encrypting = SigningKey::ec("enc").public_json();
  encrypting["use"] = "enc";
  all.push_back(encrypting);
  EXPECT_EQ(KeySet::parse(dump_json({{"keys", all}})).value().size(), 0u);
  for (const char* words : {"", "[]", "{}", R"({"keys": 1})"})
    EXPECT_FALSE(KeySet::parse(words)) << words;
}

}  // namespace
}  // namespace lockstep::identity

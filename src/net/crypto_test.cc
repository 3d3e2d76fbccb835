#include "net/crypto.h"

#include <gtest/gtest.h>

namespace lockstep::net {
namespace {

TEST(Secret, SurvivesTheWayThroughItsHexDigits) {
  const auto secret = Secret::random();
  EXPECT_EQ(secret.hex().size(), 64u);
  auto again = Secret::from_hex(secret.hex() + "\n");
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->hex(), secret.hex());
  EXPECT_NE(Secret::random().hex(), secret.hex());
}

TEST(Secret, ABadTextIsRefusedWithoutQuotingIt) {
  for (const std::string& text : {std::string("abc"), std::string(64, 'x'), std::string(66, 'a')}) {
    auto secret = Secret::from_hex(text);
    ASSERT_FALSE(secret.has_value());
    EXPECT_EQ(secret.error().code, Code::invalid);
    EXPECT_EQ(secret.error().message.find(text), std::string::npos);
  }
}

// RFC 4231 has no 32-byte key; the expected value is from Python's hmac module.
TEST(Crypto, KnownDigests) {
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  auto secret = Secret::from_hex(std::string(64, '0')).value();
  EXPECT_EQ(hmac_sha256_hex(secret, "message"),
            "eb08c1f56d5ddee07f7bdf80468083da06b64cf4fac64fe3a90883df5feacae4");
}

TEST(Crypto, ADigestOfPartsIsThatOfTheWhole) {
  Sha256 digest;
  for (const std::string_view part : {"a", "", "bc"}) digest.add(part);
  EXPECT_EQ(digest.hex(), sha256_hex("abc"));
  EXPECT_EQ(sha256("abc")[0], std::byte(0xba));
}

TEST(Crypto, EqualityIsExact) {
  EXPECT_TRUE(equal_constant_time("abcd", "abcd"));
  EXPECT_FALSE(equal_constant_time("abcd", "abce"));
  EXPECT_FALSE(equal_constant_time("abcd", "abc"));
  EXPECT_TRUE(equal_constant_time("", ""));
}

TEST(Crypto, RandomNamesDiffer) {
  EXPECT_EQ(random_hex(8).size(), 16u);
  EXPECT_NE(random_hex(8), random_hex(8));
}

}  // namespace
}  // namespace lockstep::net

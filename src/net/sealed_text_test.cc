#include "net/sealed_text.h"

#include <gtest/gtest.h>

namespace lockstep::net {
namespace {

TEST(SealedText, OpensWithItsSecretAndContext) {
  const Secret secret = Secret::random();
  for (const std::string& text : {std::string(), std::string("API_KEY=hidden\0!", 16)}) {
    const std::string sealed = seal(secret, "demo/1.1", text);
    EXPECT_EQ(sealed.find("hidden"), std::string::npos);
    EXPECT_EQ(unseal(secret, "demo/1.1", sealed).value(), text);
  }
}

TEST(SealedText, DiffersEachTime) {
  const Secret secret = Secret::random();
  EXPECT_NE(seal(secret, "", "text"), seal(secret, "", "text"));
}

TEST(SealedText, OpensWithNothingElse) {
  const Secret secret = Secret::random();
  const std::string sealed = seal(secret, "demo/1.1", "hidden");
  EXPECT_FALSE(unseal(Secret::random(), "demo/1.1", sealed));
  EXPECT_FALSE(unseal(secret, "demo/1.2", sealed));
  for (std::size_t i = 0; i < sealed.size(); ++i) {
    std::string changed = sealed;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    EXPECT_FALSE(unseal(secret, "demo/1.1", changed)) << i;
  }
  for (const char* text : {"", "AAAA", "no base64"})
    EXPECT_EQ(unseal(secret, "demo/1.1", text).error().code, Code::corrupt);
}

// Test case 13 of the GCM specification (McGrew and Viega): no text, no context.
TEST(SealedText, IsThatOfTheSpecification) {
  const Secret zero = Secret::from_hex(std::string(64, '0')).value();
  // 12 bytes of zero, then the tag 530f8afbc74536b9a963b4f1c4cb738b.
  EXPECT_EQ(unseal(zero, "", "AAAAAAAAAAAAAAAAUw+K+8dFNrmpY7TxxMtziw==").value(), "");
}

}  // namespace
}  // namespace lockstep::net

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/crypto/password_hash.h"
#include "platform/crypto/sealed_text.h"

namespace lockstep::crypto {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(PasswordHash, HasItsAlgorithmAndAcceptsOnlyItsPassword) {
  const std::string hash = hash_password("correct horse").value();
  EXPECT_THAT(hash, StartsWith("$argon2id$v=19$m=65536,t=2,p=1$"));
  EXPECT_THAT(hash, Not(HasSubstr("correct")));
  EXPECT_TRUE(is_password(hash, "correct horse"));
  EXPECT_FALSE(is_password(hash, "correct horsf"));
  EXPECT_FALSE(is_password(hash, ""));
  EXPECT_FALSE(is_password("", ""));
  EXPECT_FALSE(is_password("no hash", "correct horse"));
}

TEST(PasswordHash, OfTheSamePasswordDiffersEachTime) {
  EXPECT_NE(hash_password("correct horse").value(), hash_password("correct horse").value());
}

TEST(PasswordHash, RefusesPasswordsThatAreTooShortOrTooLong) {
  EXPECT_TRUE(check_password("12345678"));
  EXPECT_FALSE(check_password("1234567"));
  EXPECT_TRUE(check_password(std::string(1024, 'x')));
  EXPECT_FALSE(check_password(std::string(1025, 'x')));
  EXPECT_THAT(check_password("secret!").error().message, Not(HasSubstr("secret")));
}

TEST(PasswordHash, ARandomPasswordIsAllowedAndNew) {
  EXPECT_TRUE(check_password(random_password()));
  EXPECT_EQ(random_password().size(), 20u);
  EXPECT_NE(random_password(), random_password());
}

class SealedText : public ::testing::Test {
 protected:
  const net::Secret key_ = net::Secret::random();
};

TEST_F(SealedText, OpensWithItsKeyOnly) {
  const std::string sealed = seal("hunter2 \n\xc3\xa4", key_);
  EXPECT_EQ(open_sealed(sealed, key_).value(), "hunter2 \n\xc3\xa4");
  EXPECT_THAT(sealed, Not(HasSubstr("hunter2")));
  EXPECT_EQ(open_sealed(sealed, net::Secret::random()).error().code, Code::corrupt);
  EXPECT_EQ(open_sealed(seal("", key_), key_).value(), "");
}

TEST_F(SealedText, DiffersEachTime) { EXPECT_NE(seal("hunter2", key_), seal("hunter2", key_)); }

TEST_F(SealedText, IsRefusedOnceChanged) {
  const std::string sealed = seal("hunter2", key_);
  for (std::size_t at = 0; at < sealed.size(); ++at) {
    std::string changed = sealed;
    changed[at] = changed[at] == 'A' ? 'B' : 'A';
    EXPECT_FALSE(open_sealed(changed, key_)) << at;
    EXPECT_FALSE(open_sealed(sealed.substr(0, at), key_)) << at;
  }
}

}  // namespace
}  // namespace lockstep::crypto

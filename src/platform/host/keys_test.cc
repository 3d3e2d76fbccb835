#include "platform/host/keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"

namespace lockstep::host {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class KeysTest : public ::testing::Test {
 protected:
  const TemporaryFolder folder_;
  const fs::path home_ = folder_ / "home";
  model::AttemptName first_{"0f5c", {{"demo", 1}, 1}};
};

TEST_F(KeysTest, AreTheSameAfterARestart) {
  const auto before = Keys::open(home_).value();
  const auto after = Keys::open(home_).value();
  EXPECT_EQ(before.agent_token(first_), after.agent_token(first_));
  EXPECT_EQ(before.attempt_secret(first_), after.attempt_secret(first_));
}

TEST_F(KeysTest, DifferByAttemptPurposeAndDaemon) {
  const auto keys = Keys::open(home_).value();
  const model::AttemptName second{"0f5c", {{"demo", 1}, 2}};
  const model::AttemptName of_another_store{"1a2b", first_.id};
  EXPECT_EQ(keys.attempt_secret(first_).size(), 64u);
  EXPECT_NE(keys.attempt_secret(first_), keys.attempt_secret(second));
  EXPECT_NE(keys.attempt_secret(first_), keys.attempt_secret(of_another_store));
  EXPECT_NE(keys.agent_token(first_), keys.agent_token(of_another_store));
  EXPECT_NE(keys.attempt_secret(first_), keys.agent_token(first_));
  EXPECT_NE(keys.host_token("a", 1), keys.host_token("b", 1));
  EXPECT_NE(keys.sealing_key("a", "b").hex(), keys.sealing_key("a", "c").hex());
  EXPECT_NE(keys.sealing_key("a", "b").hex(), keys.sealing_key("c", "b").hex());
  EXPECT_NE(keys.host_token(text(first_), 1), keys.agent_token(first_));
  EXPECT_NE(keys.attempt_secret(first_),
            Keys::open(folder_ / "other").value().attempt_secret(first_));
}

TEST_F(KeysTest, TellEqualValuesOfAVariableWithoutTheValues) {
  const auto keys = Keys::open(home_).value();
  const std::string digest = keys.variable_digest("TOKEN", "secret");
  EXPECT_EQ(digest.size(), 16u);
  EXPECT_EQ(digest, keys.variable_digest("TOKEN", "secret"));
  EXPECT_NE(digest, keys.variable_digest("TOKEN", "other"));
  EXPECT_NE(digest, keys.variable_digest("KEY", "secret"));
  EXPECT_NE(digest, Keys::open(folder_ / "other").value().variable_digest("TOKEN", "secret"));
}

TEST_F(KeysTest, LieInFilesThatOnlyTheUserReads) {
  ASSERT_TRUE(Keys::open(home_));
  for (auto name : {"key", "token"}) {
    struct stat info{};
    ASSERT_EQ(::stat((home_ / name).c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u) << name;
  }
}

TEST_F(KeysTest, ThatOthersCanReadAreRefusedWithTheRemedy) {
  ASSERT_TRUE(Keys::open(home_));
  fs::permissions(home_ / "key", fs::perms(0644));
  EXPECT_THAT(Keys::open(home_).error().message, HasSubstr("chmod 600"));
}

TEST_F(KeysTest, ThatAreDamagedAreRefusedAndNotShown) {
  ASSERT_TRUE(Keys::open(home_));
  ASSERT_TRUE(write_file(home_ / "key", "xyzzy"));
  const auto refused = Keys::open(home_);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr((home_ / "key").string()));
  EXPECT_THAT(refused.error().message, ::testing::Not(HasSubstr("xyzzy")));
}

TEST_F(KeysTest, KnowTheTokensOfUserAndAgent) {
  const auto keys = Keys::open(home_).value();
  auto token = read_file(home_ / "token").value();
  token.pop_back();
  EXPECT_TRUE(keys.is_user_token(token));
  EXPECT_FALSE(keys.is_user_token(token + "0"));
  EXPECT_FALSE(keys.is_user_token(""));
  EXPECT_FALSE(keys.is_user_token(keys.agent_token(first_)));
  EXPECT_TRUE(keys.is_agent_token(first_, keys.agent_token(first_)));
  EXPECT_FALSE(keys.is_agent_token(first_, token));
}

}  // namespace
}  // namespace lockstep::host

#include "platform/client/chosen_daemon.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"

namespace lockstep::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr auto kUrl = "http://127.0.0.1:7070";

class ChosenDaemonTest : public testing::Test {
 protected:
  Profiles profiles() { return Profiles::of_user(environment_).value(); }
  void log_in(const std::string& name) {
    ASSERT_TRUE(profiles().write(name, {.url = kUrl, .token = "token of " + name}));
  }
  // The token of the daemon that is chosen; empty: that of the home.
  std::string token() {
    const auto chosen = chosen_remote(environment_).value();
    return chosen ? chosen->profile.token : "";
  }
  std::string refusal() { return chosen_remote(environment_).error().message; }

  const TemporaryFolder folder_;
  Environment environment_{{"HOME", (folder_ / "home").string()}};
};

TEST_F(ChosenDaemonTest, WithoutALoginTheUsersOwnIsChosen) {
  EXPECT_EQ(token(), "");
  EXPECT_THAT(profiles().names().value(), IsEmpty());
  EXPECT_FALSE(chosen_remote({})->has_value()) << "without HOME there are no profiles";
}

TEST_F(ChosenDaemonTest, TheFirstOfProfileUrlFolderAndDefaultIsChosen) {
  log_in("default");
  log_in("cluster");
  EXPECT_EQ(token(), "token of default");
  environment_["LOCKSTEP_HOME"] = "/somewhere";
  EXPECT_EQ(token(), "");
  ASSERT_TRUE(write_file(folder_ / "token", "token of a file\n"));
  environment_["LOCKSTEP_URL"] = kUrl;
  environment_["LOCKSTEP_TOKEN_FILE"] = (folder_ / "token").string();
  EXPECT_EQ(token(), "token of a file");
  environment_["LOCKSTEP_PROFILE"] = "cluster";
  EXPECT_EQ(token(), "token of cluster");
}

TEST_F(ChosenDaemonTest, WithoutATokenFileALoginToTheAddressHasTheToken) {
  const std::string plain = "https://head:7070";
  const std::string full = plain + "#sha256:" + std::string(64, '9');
  ASSERT_TRUE(profiles().write("far", {.url = full, .token = "far"}));
  environment_["LOCKSTEP_URL"] = plain;
  EXPECT_EQ(token(), "far");
  EXPECT_EQ(chosen_remote(environment_).value()->profile.url, full);
  environment_["LOCKSTEP_URL"] = full;
  EXPECT_EQ(token(), "far");
  for (const auto& other :
       {std::string("https://head:7071"), plain + "#sha256:" + std::string(64, 'a')}) {
    environment_["LOCKSTEP_URL"] = other;
    EXPECT_THAT(refusal(), HasSubstr("LOCKSTEP_TOKEN_FILE is not")) << other;
  }
}

TEST_F(ChosenDaemonTest, AVariableThatCannotBeUsedIsNamed) {
  environment_["LOCKSTEP_URL"] = "head:7070";
  EXPECT_THAT(refusal(), HasSubstr("LOCKSTEP_URL"));
  environment_["LOCKSTEP_URL"] = kUrl;
  EXPECT_THAT(refusal(), HasSubstr("LOCKSTEP_TOKEN_FILE is not"));
  environment_["LOCKSTEP_TOKEN_FILE"] = (folder_ / "missing").string();
  EXPECT_THAT(refusal(), HasSubstr("LOCKSTEP_TOKEN_FILE"));
  environment_["LOCKSTEP_PROFILE"] = "missing";
  EXPECT_THAT(refusal(), HasSubstr("there is no profile 'missing'"));
}

TEST_F(ChosenDaemonTest, ProfilesAreFilesOfTheUserAlone) {
  log_in("default");
  log_in("b");
  EXPECT_THAT(profiles().names().value(), ElementsAre("b", "default"));
  const auto file = folder_ / "home/.config/lockstep/profiles/b.json";
  struct stat info{};
  ASSERT_EQ(::stat(file.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_EQ(::chmod(file.c_str(), 0640), 0);
  EXPECT_EQ(profiles().read("b").error().code, Code::denied);
  ASSERT_TRUE(profiles().remove("b"));
  EXPECT_EQ(profiles().remove("b").error().code, Code::not_found);
  for (std::string name : {"", ".hidden", "a/b", "..", "a b"})
    EXPECT_EQ(profiles().write(name, {}).error().code, Code::invalid) << name;
  environment_["XDG_CONFIG_HOME"] = (folder_ / "config").string();
  EXPECT_THAT(profiles().names().value(), IsEmpty());
}

}  // namespace
}  // namespace lockstep::client

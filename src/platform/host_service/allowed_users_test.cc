#include "platform/host_service/allowed_users.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"

namespace lockstep::host_service {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class AllowedUsersTest : public ::testing::Test {
 protected:
  void write(const std::string& content) { ASSERT_TRUE(write_file(file_, content, 0644)); }
  std::string refusal(const std::string& user) {
    const auto account = allowed_account(user, file_);
    return account ? "" : account.error().message;
  }

  const TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_ / "users";
};

TEST_F(AllowedUsersTest, ALineHasAUserAndItsAccountIfThatHasAnotherName) {
  write("# ranks run as\nann\n  bob robert # until May\n\n");
  EXPECT_THAT(allowed_users(file_).value(), ElementsAre(Pair("ann", "ann"), Pair("bob", "robert")));
}

TEST_F(AllowedUsersTest, AUserHasTheAccountOfItsLine) {
  write("ann nobody\n");
  EXPECT_EQ(allowed_account("ann", file_)->name, "nobody");
  EXPECT_THAT(refusal("nobody"), HasSubstr("add a line 'nobody' to")) << "an account is no user";
}

TEST_F(AllowedUsersTest, AWrongLineAllowsNoUserAndIsNamed) {
  write("bob\nann nobody x\n");
  EXPECT_THAT(refusal("bob"), HasSubstr("users:2: a line is USER or USER ACCOUNT"));
  write("ann nobody\nann\n");
  EXPECT_THAT(refusal("ann"), HasSubstr("users:2: 'ann' has a line above"));
}

TEST_F(AllowedUsersTest, AUserThatTheFileDoesNotHaveIsRefusedWithWhatToDo) {
  EXPECT_THAT(refusal("ann"), HasSubstr("add a line 'ann' to"));
  write("bob\n");
  EXPECT_THAT(refusal("ann"), HasSubstr("add a line 'ann' to"));
  EXPECT_THAT(refusal(""), HasSubstr("starts no ranks of ''"));
}

TEST_F(AllowedUsersTest, RootAndAccountsOfTheSystemAreRefusedWhateverTheFileSays) {
  write("root\ndaemon\neve root\nno-such-user-of-this-test\n");
  EXPECT_THAT(refusal("eve"), HasSubstr("user id 0 is below 1000"));
  EXPECT_THAT(refusal("root"), HasSubstr("user id 0 is below 1000"));
  EXPECT_THAT(refusal("daemon"), HasSubstr("is below 1000"));
  EXPECT_THAT(refusal("no-such-user-of-this-test"), HasSubstr("has no account"));
  write("");
  EXPECT_THAT(refusal("root"), HasSubstr("submit the run as another user")) << "no line would help";
}

TEST_F(AllowedUsersTest, AFileThatOthersMayWriteToAllowsNobody) {
  write("ann\n");
  ASSERT_EQ(::chmod(file_.c_str(), 0666), 0);
  EXPECT_THAT(refusal("ann"), HasSubstr("others may write to"));
}

}  // namespace
}  // namespace lockstep::host_service

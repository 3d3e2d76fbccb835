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

TEST_F(AllowedUsersTest, AreTheNamesInTheFileWithoutComments) {
  write("# ranks run as\nann\n  bob  # until May\n\n");
  EXPECT_THAT(allowed_users(file_).value(), ElementsAre("ann", "bob"));
}

TEST_F(AllowedUsersTest, AUserThatTheFileDoesNotHaveIsRefusedWithWhatToDo) {
  EXPECT_THAT(refusal("ann"), HasSubstr("add a line 'ann' to"));
  write("bob\n");
  EXPECT_THAT(refusal("ann"), HasSubstr("add a line 'ann' to"));
  EXPECT_THAT(refusal(""), HasSubstr("starts no ranks as ''"));
}

TEST_F(AllowedUsersTest, RootAndAccountsOfTheSystemAreRefusedWhateverTheFileSays) {
  write("root\ndaemon\nno-such-user-of-this-test\n");
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

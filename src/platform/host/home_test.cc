#include "platform/host/home.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/format.h"
#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"

namespace lockstep::host {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class HomeTest : public ::testing::Test {
 protected:
  // The user's home is on `shared_as`, everything else on local file systems.
  HomeSearch search(const std::string& shared_as) const {
    const fs::path users = folder_ / "users";
    return {.environment = {{"HOME", (users / "ann").string()}},
            .file_system_of =
                [users, shared_as](const fs::path& path) {
                  return path.string().starts_with(users.string()) ? shared_as : "";
                },
            .local = folder_ / "local"};
  }
  Home shared_home() const { return Home::find(search("NFS")).value(); }
  fs::path stand_in() const { return folder_ / "local" / format("lockstep-{}", ::geteuid()); }

  const TemporaryFolder folder_;
  const DaemonFile on_a_{.url = "http://127.0.0.1:1",
                         .pid = 7,
                         .version = "1",
                         .host = "login-a",
                         .machine = "a",
                         .boot = "1"};
  const Machine a_{"login-a", "a", "1"}, b_{"login-b", "b", "2"};
};

TEST_F(HomeTest, IsWhereTheEnvironmentSays) {
  HomeSearch here = search("");
  EXPECT_EQ(Home::find(here)->folder, folder_ / "users/ann/.local/state/lockstep");
  here.environment["XDG_STATE_HOME"] = (folder_ / "state").string();
  EXPECT_EQ(Home::find(here)->folder, folder_ / "state/lockstep");
  here.environment["LOCKSTEP_HOME"] = (folder_ / "chosen").string();
  EXPECT_EQ(Home::find(here)->folder, folder_ / "chosen");
  EXPECT_FALSE(Home::find(here)->pointer);
}

TEST_F(HomeTest, OnASharedFileSystemIsOnlyAPointerToAFolderOfThisMachine) {
  const Home home = shared_home();
  EXPECT_EQ(home.folder, stand_in());
  EXPECT_EQ(home.pointer, folder_ / "users/ann/.local/state/lockstep/daemon.json");
  ASSERT_TRUE(make_home_folder(home));
  EXPECT_EQ(fs::status(stand_in()).permissions(), fs::perms::owner_all);
}

TEST_F(HomeTest, AFolderThatWasChosenOnASharedFileSystemIsRefusedWithARemedy) {
  HomeSearch chosen = search("Lustre");
  chosen.environment["LOCKSTEP_HOME"] = (folder_ / "users/ann/mine").string();
  const auto refused = make_home_folder(Home::find(chosen).value());
  EXPECT_EQ(refused.error().code, Code::invalid);
  EXPECT_THAT(refused.error().message, HasSubstr("is on Lustre"));
  EXPECT_THAT(refused.error().message, HasSubstr("unset LOCKSTEP_HOME"));
  EXPECT_FALSE(fs::exists(folder_ / "users"));
}

TEST_F(HomeTest, AMachineWithoutAFileSystemOfItsOwnIsTold) {
  HomeSearch all = search("NFS");
  all.file_system_of = [](const fs::path&) { return "NFS"; };
  EXPECT_THAT(make_home_folder(Home::find(all).value()).error().message,
              HasSubstr("set LOCKSTEP_HOME to a folder on one"));
}

TEST_F(HomeTest, AFolderThatOthersMayWriteToIsRefusedWithTheCommandThatHelps) {
  const Home home{folder_ / "home"};
  EXPECT_TRUE(check_private(home)) << "it is not there yet";
  ASSERT_TRUE(make_home_folder(home));
  EXPECT_TRUE(check_private(home));
  for (const unsigned mode : {0777u, 0770u, 0722u}) {
    ASSERT_EQ(::chmod(home.folder.c_str(), mode), 0);
    const auto refused = check_private(home);
    EXPECT_EQ(refused.error().code, Code::denied);
    EXPECT_THAT(refused.error().message, HasSubstr("`chmod go-w " + home.folder.string() + "`"));
    EXPECT_FALSE(make_home_folder(home));
  }
  ASSERT_EQ(::chmod(home.folder.c_str(), 0755), 0);
  EXPECT_TRUE(check_private(home));
}

TEST_F(HomeTest, AFolderOfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "giving a folder away needs root";
  const Home home{folder_ / "home"};
  ASSERT_TRUE(make_home_folder(home));
  ASSERT_EQ(::chown(home.folder.c_str(), 12345, 12345), 0);
  EXPECT_THAT(check_private(home).error().message, HasSubstr("belongs to another user"));
}

// In /var/tmp any user may create a link of this name.
TEST_F(HomeTest, ALinkInThePlaceOfTheLocalFolderIsRefused) {
  ASSERT_TRUE(make_folders(folder_ / "local"));
  ASSERT_TRUE(make_folders(folder_ / "elsewhere"));
  fs::create_directory_symlink(folder_ / "elsewhere", stand_in());
  EXPECT_THAT(check_private(shared_home()).error().message, HasSubstr("it is a link"));
  EXPECT_FALSE(make_home_folder(shared_home()));
}

TEST_F(HomeTest, APointerToAnotherMachineIsNoDaemonOfThisOne) {
  const Home home = shared_home();
  EXPECT_FALSE(daemon_elsewhere(home, b_));
  ASSERT_TRUE(write_pointer(home, on_a_));
  EXPECT_FALSE(daemon_elsewhere(home, a_));
  const auto there = daemon_elsewhere(home, b_);
  ASSERT_TRUE(there);
  const Error error = daemon_elsewhere_error(home, *there);
  EXPECT_EQ(error.code, Code::unavailable);
  EXPECT_THAT(error.message, HasSubstr("runs on login-a"));
  EXPECT_THAT(error.message, HasSubstr("`ssh login-a lockstep ...`"));
  EXPECT_THAT(error.message, HasSubstr("remove " + home.pointer->string()));
}

TEST_F(HomeTest, AContainerOfTheSameKernelIsAnotherMachineOnASharedHomeAlone) {
  const Machine container{"0a1b2c", "a", "1"};
  const Home own{folder_ / "own"};
  ASSERT_TRUE(make_home_folder(own));
  ASSERT_TRUE(write_daemon_file(own.daemon_file(), on_a_));
  EXPECT_FALSE(daemon_elsewhere(own, container)) << "the folder's lock tells";
  EXPECT_TRUE(daemon_elsewhere(own, b_));
  ASSERT_TRUE(write_pointer(shared_home(), on_a_));
  EXPECT_TRUE(daemon_elsewhere(shared_home(), container));
}

TEST_F(HomeTest, APointerHasTheTokenOnlyWhereOtherMachinesMayCall) {
  const Home home = shared_home();
  ASSERT_TRUE(make_home_folder(home));
  ASSERT_TRUE(write_file(home.token_file(), "t0ken\n"));
  ASSERT_TRUE(write_pointer(home, on_a_));
  EXPECT_EQ(read_daemon_file(*home.pointer)->token, "");
  DaemonFile open = on_a_;
  open.network_url = "http://10.0.0.1:1";
  ASSERT_TRUE(write_pointer(home, open));
  EXPECT_EQ(read_daemon_file(*home.pointer)->token, "t0ken");
  const auto others = fs::perms::group_all | fs::perms::others_all;
  EXPECT_EQ(fs::status(*home.pointer).permissions() & others, fs::perms::none);
}

TEST_F(HomeTest, ADamagedDaemonFileIsNamed) {
  for (const char* content : {"", "{", "[]", R"({"pid":1})"}) {
    ASSERT_TRUE(write_file(folder_ / "daemon.json", content));
    const auto file = read_daemon_file(folder_ / "daemon.json");
    EXPECT_EQ(file.error().code, Code::corrupt) << content;
    EXPECT_THAT(file.error().message, HasSubstr((folder_ / "daemon.json is damaged").string()));
  }
}

TEST(SharedFileSystem, IsKnownByItsMagicNumber) {
  EXPECT_EQ(shared_file_system(0x6969), "NFS");
  EXPECT_EQ(shared_file_system(0x0bd00bd0), "Lustre");
  EXPECT_EQ(shared_file_system(0x47504653), "GPFS");
  EXPECT_EQ(shared_file_system(0x00c36400), "CephFS");
  EXPECT_EQ(shared_file_system(0x19830326), "BeeGFS");
  EXPECT_EQ(shared_file_system(0xff534d42), "CIFS");
  EXPECT_EQ(shared_file_system(0xfe534d42), "SMB2");
  EXPECT_EQ(shared_file_system(0x01021997), "9p");
  EXPECT_EQ(shared_file_system(0x65735546), "FUSE");
  EXPECT_EQ(shared_file_system(0xef53), "") << "ext4";
  EXPECT_EQ(shared_file_system(0x01021994), "") << "tmpfs";
}

TEST(SharedFileSystem, OfAPathThatIsNotThereIsItsParents) {
  EXPECT_EQ(shared_file_system_of("/proc/no/such/folder"), "");
  EXPECT_EQ(shared_file_system_of("relative"), "");
}

}  // namespace
}  // namespace lockstep::host

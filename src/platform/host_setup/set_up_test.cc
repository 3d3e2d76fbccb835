// The setup of a host that answers as a test says.
#include "platform/host_setup/set_up.h"

#include <deque>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"
#include "text/convert.h"
#include "text/json.h"

namespace lockstep::host_setup {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Time kNoon = parse_time("2026-11-21T12:00:00Z").value();

class FixedClock : public Clock {
 public:
  Time now() const override { return kNoon; }
};

// Keeps the calls, and gives the answers in their order.
class FakeShell : public RemoteShell {
 public:
  explicit FakeShell(std::deque<std::string> answers) : answers_(std::move(answers)) {}
  Result<std::string> run(const RemoteScript& call) override {
    calls.push_back(call);
    LS_CHECK(!answers_.empty());
    std::string answer = std::move(answers_.front());
    answers_.pop_front();
    return answer;
  }
  std::vector<RemoteScript> calls;

 private:
  std::deque<std::string> answers_;
};

// A user without root on Debian 12, in a home with room.
std::string facts(const std::string& further = "") {
  return "architecture x86_64\ndistribution debian 12\nroot 1000\nprefix /home/ann/.local\n"
         "writable yes\nfree 9000000\ntar yes\n" +
         further;
}

std::string inventory(const std::string& version = "1.2.3") {
  api::HostReport report;
  report.inventory.name = "gpu1";
  report.inventory.version = version;
  report.inventory.clock = kNoon;
  return dump_json(to_json(report));
}

Package tarball() {
  return {.path = "/packages/lockstep-1.2.3-Linux.tar.gz",
          .version = "1.2.3",
          .architecture = "x86_64",
          .size = 20_MiB,
          .sum = "abc"};
}

Package debian() {
  return {.path = "/packages/lockstep_1.2.3_amd64.deb",
          .kind = PackageKind::debian,
          .version = "1.2.3",
          .architecture = "x86_64",
          .size = 10_MiB,
          .sum = "def"};
}

Result<InstalledHost> set_up_with(FakeShell& shell, std::vector<Package> packages = {tarball()}) {
  const SetUpOptions options{.packages = std::move(packages), .version = "1.2.3"};
  return set_up(shell, "ann@gpu1", options, FixedClock(), [](std::string_view) {});
}

TEST(SetUp, CopiesTheTarballBelowTheHomeOfAUserAndReturnsTheInventory) {
  FakeShell shell({facts(), "", inventory()});
  const auto installed = set_up_with(shell, {debian(), tarball()});
  ASSERT_TRUE(installed) << installed.error().message;
  EXPECT_EQ(installed->program, "/home/ann/.local/bin/lockstep");
  EXPECT_EQ(installed->report.inventory.name, "gpu1");
  EXPECT_THAT(installed->report.problems, IsEmpty());
  ASSERT_EQ(shell.calls.size(), 3u);
  EXPECT_EQ(shell.calls[1].input, tarball().path);
  EXPECT_THAT(shell.calls[1].script, HasSubstr("/home/ann/.local/lib/lockstep-1.2.3-abc"));
  EXPECT_THAT(shell.calls[2].script, HasSubstr("/home/ann/.local/bin/lockstep"));
}

TEST(SetUp, CopiesNothingToAHostThatHasThePackage) {
  FakeShell shell({facts("installed lockstep-1.2.3-abc\n"), inventory()});
  EXPECT_TRUE(set_up_with(shell));
  EXPECT_EQ(shell.calls.size(), 2u);
}

TEST(SetUp, ReplacesAnotherBuildOfTheSameVersion) {
  FakeShell shell({facts("installed lockstep-1.2.3-000\n"), "", inventory()});
  EXPECT_TRUE(set_up_with(shell));
  EXPECT_EQ(shell.calls.size(), 3u);
}

TEST(SetUp, TakesTheDebianPackageForRootOnDebian) {
  FakeShell shell(
      {"architecture x86_64\ndistribution debian 12\nroot 0\nprefix /usr/local\n"
       "writable yes\nfree 9000000\ntar yes\n",
       "", inventory()});
  EXPECT_TRUE(set_up_with(shell, {tarball(), debian()}));
  EXPECT_EQ(shell.calls[1].input, debian().path);
  EXPECT_THAT(shell.calls[1].script, HasSubstr("apt-get install"));
}

TEST(SetUp, PutsNoQuoteOrNewlineIntoAScriptThatAnyLoginShellReads) {
  FakeShell shell({facts(), "", inventory()});
  EXPECT_TRUE(set_up_with(shell));
  for (const RemoteScript& call : shell.calls)
    EXPECT_EQ(call.script.find_first_of("\n'"), std::string::npos) << call.script;
}

TEST(SetUp, RefusesAnotherArchitectureBeforeItCopies) {
  FakeShell shell(
      {"architecture aarch64\nroot 1000\nprefix /home/ann/.local\nwritable yes\n"
       "free 9000000\ntar yes\n"});
  const auto refused = set_up_with(shell);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("it is aarch64, and the packages are for x86_64"));
}

TEST(SetUp, RefusesADiskWithoutRoomBeforeItCopies) {
  FakeShell shell(
      {"architecture x86_64\nroot 1000\nprefix /home/ann/.local\nwritable yes\n"
       "free 20000\ntar yes\n"});
  const auto refused = set_up_with(shell);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::exhausted);
  EXPECT_THAT(refused.error().message, HasSubstr("has 19.5 MiB free"));
}

TEST(SetUp, NamesAProgramThatIsOfAnotherVersionThanItsPackage) {
  FakeShell shell({facts(), "", inventory("0.0.9")});
  const auto refused = set_up_with(shell);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("is Lockstep 0.0.9, and not 1.2.3"));
}

TEST(SetUp, FailsForAHostThatPrintsNoInventory) {
  FakeShell shell({facts(), "", "unknown command\n"});
  const auto refused = set_up_with(shell);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("reading its inventory"));
}

TEST(Packages, OfAFolderAreThoseOfTheVersion) {
  const TemporaryFolder folder;
  for (const char* name : {"lockstep-1.2.3-Linux.tar.gz", "lockstep_1.2.3_amd64.deb",
                           "lockstep-1.2.2-Linux.tar.gz", "lockstep-1.2.3.tar.gz"})
    ASSERT_TRUE(write_file(folder / name, name));
  const auto found = packages_at(folder.path(), "1.2.3");
  ASSERT_TRUE(found) << found.error().message;
  std::vector<std::string> names;
  for (const Package& package : *found) names.push_back(package.path.filename());
  EXPECT_THAT(names, ElementsAre("lockstep-1.2.3-Linux.tar.gz", "lockstep_1.2.3_amd64.deb"));
  EXPECT_EQ((*found)[0].sum.size(), 12u);
  EXPECT_EQ(packages_at(folder.path(), "9").error().code, Code::not_found);
}

TEST(Packages, ByNameAreRefusedIfTheyAreOfAnotherVersionOrNone) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder / "lockstep-1.2.2-Linux.tar.gz", ""));
  ASSERT_TRUE(write_file(folder / "other.tar.gz", ""));
  EXPECT_THAT(packages_at(folder / "lockstep-1.2.2-Linux.tar.gz", "1.2.3").error().message,
              HasSubstr("is of version 1.2.2, and this program of 1.2.3"));
  EXPECT_THAT(packages_at(folder / "other.tar.gz", "1.2.3").error().message,
              HasSubstr("is no package of Lockstep"));
  EXPECT_EQ(packages_at(folder / "missing", "1.2.3").error().code, Code::not_found);
}

TEST(Join, HasTheTokenAsInputAndNotInTheScript) {
  FakeShell shell({std::string("the host service runs\n")});
  const auto said = join(shell, "ann@gpu1",
                         {.program = "/home/ann/.local/bin/lockstep",
                          .url = "https://head:7070#sha256:ab",
                          .token = "gpu1:secret",
                          .address = "10.0.0.7"},
                         std::chrono::seconds(9));
  ASSERT_TRUE(said) << said.error().message;
  EXPECT_EQ(*said, "the host service runs");
  ASSERT_EQ(shell.calls.size(), 1u);
  const RemoteScript& call = shell.calls[0];
  EXPECT_EQ(call.secret, "gpu1:secret");
  EXPECT_EQ(call.script,
            "\"/home/ann/.local/bin/lockstep\" host join \"https://head:7070#sha256:ab\" --address "
            "\"10.0.0.7\" >&2 && exec \"/home/ann/.local/bin/lockstep\" host serve --install");
}

TEST(TakeDown, RefusesAHostOnWhichLockstepRuns) {
  FakeShell running({std::string("running 12 13 \n")});
  EXPECT_THAT(take_down(running, "gpu1", std::chrono::seconds(9)).error().message,
              HasSubstr("process 12 13"));
  FakeShell bare({std::string("nothing\n")});
  EXPECT_EQ(take_down(bare, "gpu1", std::chrono::seconds(9)).error().code, Code::not_found);
  FakeShell removed({std::string("")});
  EXPECT_TRUE(take_down(removed, "gpu1", std::chrono::seconds(9)));
}

}  // namespace
}  // namespace lockstep::host_setup

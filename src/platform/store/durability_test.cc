// The store under failures: no space, no permission, a damaged file, a kill during a commit.
#include <cstring>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/fd.h"
#include "base/os/files.h"
#include "base/random.h"
#include "base/temporary_folder_for_test.h"
#include "platform/store/sql_store.h"
#include "platform/store/tables_copy.h"

namespace lockstep::store {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::vector<model::Change> rows_of(std::int64_t version, std::size_t bytes = 10) {
  model::Run run;
  run.id = {"demo", 1};
  run.spec.project = "demo";
  run.version = version;
  run.reason = std::string(bytes, 'x');
  run.epoch = 1;
  model::Attempt attempt;
  attempt.id = {run.id, 1};
  attempt.reason = std::to_string(version);
  return {run, attempt};
}

// Checks that both rows are of one commit; returns its version, 0 if there is none.
std::int64_t whole_version(Database& database) {
  const model::State state = SqlStore(database).load().value();
  if (state.runs.empty()) return 0;
  const auto version = state.runs.begin()->second.version;
  EXPECT_EQ(state.attempts.begin()->second.reason, std::to_string(version));
  return version;
}

// Runs work() in a child process, which may change its user or its mounts. Returns its text; if a
// requirement is missing, it begins with "skip".
std::string in_child(const std::function<std::string()>& work) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string words = work();
    (void)write_all(ends[1], words);
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string words;
  char buffer[4096];
  for (ssize_t n = 0; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;)
    words.append(buffer, static_cast<std::size_t>(n));
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return words;
}

// Mounts a small file system at `folder` for this process alone.
bool mount_small(const fs::path& folder) {
  return ::unshare(CLONE_NEWNS) == 0 && ::mount("", "/", "", MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=2m") == 0;
}

class DurabilityTest : public ::testing::Test {
 protected:
  fs::path file() const { return folder_ / "lockstep.db"; }
  std::unique_ptr<Database> open() { return Database::open(file()).value(); }

  const TemporaryFolder folder_;
};

TEST_F(DurabilityTest, AFullDiskRefusesTheCommitWholeAndTakesItOnceThereIsRoom) {
  const auto words = in_child([&]() -> std::string {
    if (!mount_small(folder_)) return "skip: mounting a file system takes root";
    auto database = Database::open(file());
    if (!database) return database.error().message;
    SqlStore store(**database);
    if (!store.commit(rows_of(1))) return "the first commit failed";
    const auto ballast = open_file(folder_ / "ballast", O_WRONLY | O_CREAT);
    const std::string page(4096, 'b');
    while (::write(ballast->get(), page.data(), page.size()) > 0) continue;
    std::string refusal;
    for (int i = 0; i < 100 && refusal.empty(); ++i)
      if (auto done = store.commit(rows_of(1, 100'000)); !done)
        refusal = std::string(lockstep::text(done.error().code)) + " " + done.error().message;
    if (refusal.empty()) return "no commit was refused";
    if (whole_version(**database) != 1) return "the refused commit left something";
    if (::ftruncate(ballast->get(), 0) != 0) return "ftruncate failed";
    if (auto done = store.commit(rows_of(2, 100'000)); !done)
      return "with room again: " + done.error().message;
    return whole_version(**database) == 2 ? refusal : "the last commit is not there";
  });
  if (words.starts_with("skip")) GTEST_SKIP() << words;
  EXPECT_THAT(words, AllOf(StartsWith("exhausted "),
                           HasSubstr("no space is left; make room in " + folder_.path().string())));
}

TEST_F(DurabilityTest, AnUpdateWithoutSpaceForTheCopyOfTheStoreChangesNothing) {
  const auto words = in_child([&]() -> std::string {
    if (!mount_small(folder_)) return "skip: mounting a file system takes root";
    auto database = Database::open(file());
    if (!database) return database.error().message;
    if (auto done = SqlStore(**database).commit(rows_of(1, 100'000)); !done)
      return done.error().message;
    const auto ballast = open_file(folder_ / "ballast", O_WRONLY | O_CREAT);
    const std::string page(4096, 'b');
    while (::write(ballast->get(), page.data(), page.size()) > 0) continue;
    const auto refused = copy_tables(**database, file(), 3);
    if (fs::exists(tables_copy_path(file(), 3))) return "there is a copy";
    return refused ? "copied" : refused.error().message;
  });
  if (words.starts_with("skip")) GTEST_SKIP() << words;
  EXPECT_THAT(words, AllOf(HasSubstr("is free in " + folder_.path().string()),
                           HasSubstr("make room there")));
}

TEST_F(DurabilityTest, AReadOnlyFileSystemIsNamedWithARemedy) {
  const auto words = in_child([&]() -> std::string {
    if (!mount_small(folder_)) return "skip: mounting a file system takes root";
    {
      auto database = Database::open(file());
    }
    if (::mount("", folder_.path().c_str(), "", MS_REMOUNT | MS_RDONLY, nullptr) != 0)
      return "skip: remounting failed";
    const auto refused = Database::open(file());
    return refused ? "opened" : refused.error().message;
  });
  if (words.starts_with("skip")) GTEST_SKIP() << words;
  EXPECT_THAT(words, AllOf(HasSubstr(folder_.path().string()), HasSubstr("Read-only file system"),
                           HasSubstr("LOCKSTEP_HOME")));
}

TEST_F(DurabilityTest, AFolderOfSomebodyElseIsNamedWithARemedy) {
  {
    auto database = open();
  }
  const auto words = in_child([&]() -> std::string {
    if (::setuid(65534) != 0) return "skip: becoming another user takes root";
    const auto refused = Database::open(file());
    return refused
               ? "opened"
               : std::string(lockstep::text(refused.error().code)) + " " + refused.error().message;
  });
  if (words.starts_with("skip")) GTEST_SKIP() << words;
  EXPECT_THAT(words, AllOf(StartsWith("denied "), HasSubstr(folder_.path().string()),
                           HasSubstr("LOCKSTEP_HOME")));
}

TEST_F(DurabilityTest, AFolderInTheFilesPlaceIsRefused) {
  fs::create_directories(file());
  const auto refused = Database::open(file());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::invalid);
  EXPECT_THAT(refused.error().message, HasSubstr("is a folder"));
}

TEST_F(DurabilityTest, ADamagedFileIsCalledDamagedAndStaysAsItIs) {
  ASSERT_TRUE(SqlStore(*open()).commit(rows_of(1, 20'000)));
  std::string content = read_file(file()).value();
  std::fill(content.begin() + 4096, content.end(), '\x5a');  // all but the first page
  ASSERT_TRUE(write_file(file(), content));
  auto database = Database::open(file());
  const Error error = database ? SqlStore(**database).load().error() : database.error();
  EXPECT_EQ(error.code, Code::corrupt);
  EXPECT_THAT(error.message,
              AllOf(HasSubstr(file().string()), HasSubstr("damaged"), HasSubstr("move it away")));
}

// Reports each version once it is committed; the kill may come at any time after that.
void write_until_killed(const fs::path& file, std::int64_t version, int said) {
  auto database = Database::open(file).value();
  SqlStore store(*database);
  for (;; ++version) {
    if (!store.commit(rows_of(version, 3000))) ::_exit(1);
    (void)write_all(said, std::string_view(reinterpret_cast<const char*>(&version), 8));
  }
}

TEST_F(DurabilityTest, AKilledWriterLeavesEachCommitWholeOrNotThere) {
  Random random(3);
  std::int64_t known = 0;
  for (int round = 0; round < 20; ++round) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t writer = ::fork();
    if (writer == 0) write_until_killed(file(), known + 1, ends[1]);
    ::close(ends[1]);
    for (std::uint64_t commits = 1 + random.below(4); commits > 0; --commits)
      ASSERT_EQ(::read(ends[0], &known, sizeof known), 8);
    for (auto spins = random.below(300'000); spins > 0; --spins) asm volatile("");
    ::kill(writer, SIGKILL);
    while (::read(ends[0], &known, sizeof known) == 8) continue;
    ::close(ends[0]);
    ::waitpid(writer, nullptr, 0);
    auto database = open();
    const auto found = whole_version(*database);
    ASSERT_GE(found, known);  // a commit that was not yet reported may be there
    ASSERT_LE(found, known + 1);
    ASSERT_EQ(std::get<0>(database->rows<std::string>("pragma integrity_check").value()[0]), "ok");
    known = found;
  }
}

TEST_F(DurabilityTest, TheJournalStaysSmall) {
  auto database = open();
  SqlStore store(*database);
  for (int i = 1; i <= 60; ++i) ASSERT_TRUE(store.commit(rows_of(i, 200'000)));
  EXPECT_LT(fs::file_size(file().string() + "-wal"), 8u << 20);
}

TEST_F(DurabilityTest, WhatNothingUsesIsGivenBackInSlices) {
  auto database = open();
  ASSERT_TRUE(SqlStore(*database).commit(rows_of(1, 4 << 20)));
  ASSERT_TRUE(SqlStore(*database).commit(rows_of(2)));
  const auto pages = [&] {
    return std::get<0>(database->rows<std::int64_t>("pragma page_count").value()[0]);
  };
  const auto before = pages();
  EXPECT_GT(database->unused().value(), 3_MiB);
  ASSERT_TRUE(database->shrink(100));
  EXPECT_EQ(pages(), before - 100);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(database->shrink(100));
  EXPECT_EQ(database->unused().value(), 0_B);
  EXPECT_EQ(whole_version(*database), 2);
}

}  // namespace
}  // namespace lockstep::store

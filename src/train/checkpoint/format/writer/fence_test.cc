#include "train/checkpoint/format/writer/fence.h"

#include <atomic>
#include <csignal>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/format.h"
#include "base/os/files.h"
#include "train/checkpoint/format/layouts_for_test.h"
#include "train/checkpoint/format/list_checkpoints.h"

namespace lockstep::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace layouts_for_test;
namespace fs = std::filesystem;

FenceOptions as_run(const std::string& run, std::int64_t attempt = 1) {
  return {.writer = {.store = "00000000000000aa", .run = run, .attempt = attempt}};
}

// On a machine whose locks are not visible here; only renew() renews its claim.
FenceOptions elsewhere(FenceOptions options) {
  options.process = {.host = "vm-9", .boot = "another boot", .name = "7-there", .pid = 7};
  options.heartbeat_interval = std::chrono::hours(1);
  return options;
}

// Simulates the wait; `meanwhile` runs the actions of the other machine. `waited` gets the time.
FenceOptions watching(FenceOptions options, Duration& waited,
                      const std::function<void()>& meanwhile) {
  options.sleep = [&waited, meanwhile](Duration pause) {
    waited += pause;
    meanwhile();
  };
  return options;
}

void renew(const fs::path& folder) {
  const auto path = folder / "WRITER";
  fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(2));
}

testing::AssertionResult says(const Error& error, Code code, const std::string& words) {
  if (error.code == code && error.message.find(words) != std::string::npos)
    return testing::AssertionSuccess();
  return testing::AssertionFailure() << lockstep::text(error.code) << ": " << error.message;
}

// A process that has claimed the folder, until it is killed.
class OtherProcess {
 public:
  OtherProcess(const fs::path& folder, const FenceOptions& options) {
    int ready[2] = {};
    EXPECT_EQ(::pipe(ready), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      auto there = options;
      there.process = WriterProcess::of_this_process();
      const auto fence = Fence::claim(folder, there);
      const char word = fence ? 'y' : 'n';
      if (::write(ready[1], &word, 1) == 1) ::pause();
      ::_exit(0);
    }
    char word = '?';
    EXPECT_EQ(::read(ready[0], &word, 1), 1);
    EXPECT_EQ(word, 'y') << "it could not claim the folder";
    ::close(ready[0]);
    ::close(ready[1]);
  }
  ~OtherProcess() { kill(); }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

TEST(Fence, ALaterAttemptOfTheRunTakesOverFromALivingOne) {
  const Folder folder;
  std::string told;
  auto first = as_run("demo/3", 1);
  first.on_rejected = [&](report::Fault fault, const std::string& why) {
    EXPECT_EQ(fault, report::Fault::superseded);
    told += why;
  };
  const auto fence = Fence::claim(folder, first).value();
  ASSERT_TRUE(fence.check());
  const auto second = Fence::claim(folder, as_run("demo/3", 2)).value();
  const auto checked = fence.check();
  ASSERT_FALSE(checked);
  EXPECT_TRUE(says(checked.error(), Code::denied,
                   format("attempt 1 of demo/3 may not write to {}: attempt 2 took over at 20",
                          folder.path().string())));
  EXPECT_EQ(told, checked.error().message);
  EXPECT_FALSE(fence.check());
  EXPECT_EQ(told, checked.error().message) << "it is told once";
  EXPECT_TRUE(second.check());
}

TEST(Fence, AnEarlierAttemptThatComesLateIsSuperseded) {
  const Folder folder;
  {
    const auto ended = Fence::claim(folder, as_run("demo/3", 2)).value();
  }
  std::string told;
  auto late = as_run("demo/3", 1);
  late.on_rejected = [&](report::Fault, const std::string& why) { told = why; };
  const auto claimed = Fence::claim(folder, late);
  ASSERT_FALSE(claimed);
  EXPECT_TRUE(says(claimed.error(), Code::denied, "attempt 2 took over at"));
  EXPECT_EQ(told, claimed.error().message);
}

TEST(Fence, AfterARecoveryTheSameAttemptTakesOver) {
  const Folder folder;
  const OtherProcess cut_off(folder, as_run("demo/3"));
  EXPECT_TRUE(says(Fence::claim(folder, as_run("demo/3")).error(), Code::already_exists,
                   format("process {} on", cut_off.pid())));
  auto recovered = as_run("demo/3");
  recovered.writer.recoveries = 1;
  EXPECT_TRUE(Fence::claim(folder, recovered));
}

TEST(Fence, AnotherRunIsRefusedByNameWhileTheWriterLives) {
  const Folder folder;
  OtherProcess living(folder, as_run("default/11"));
  auto second = as_run("default/12");
  std::string told;
  second.on_rejected = [&](report::Fault fault, const std::string& why) {
    EXPECT_EQ(fault, report::Fault::refused);
    told = why;
  };
  const auto refused = Fence::claim(folder, second);
  ASSERT_FALSE(refused);
  EXPECT_EQ(told, refused.error().message);
  EXPECT_TRUE(says(refused.error(), Code::already_exists, "default/11 (attempt 1, on "));
  EXPECT_TRUE(says(refused.error(), Code::already_exists,
                   "give this run a folder of its own with --checkpoint-folder, or stop "
                   "default/11"));
  living.kill();
  EXPECT_TRUE(Fence::claim(folder, as_run("default/12"))) << "killed, it is gone at once";
}

TEST(Fence, ARunOfTheSameNameInAnotherStoreIsAnotherRun) {
  const Folder folder;
  const OtherProcess living(folder, as_run("default/11"));
  auto namesake = as_run("default/11", 5);
  namesake.writer.store = "00000000000000bb";
  EXPECT_EQ(Fence::claim(folder, namesake).error().code, Code::already_exists);
}

TEST(Fence, ANewRunContinuesTheFolderOfAnEndedOneThatHadManyAttempts) {
  const Folder folder;
  for (int attempt = 1; attempt <= 3; ++attempt)
    ASSERT_TRUE(Fence::claim(folder, as_run("default/11", attempt)));
  EXPECT_TRUE(Fence::claim(folder, as_run("default/12")));
  EXPECT_TRUE(Fence::claim(folder, {})) << "or a program outside of a run";
}

TEST(Fence, AFolderOfAnEarlierLockstepCountsAsEnded) {
  const Folder folder;
  ASSERT_TRUE(write_file(folder / "EPOCH", "3\n"));
  const auto fence = Fence::claim(folder, as_run("default/12")).value();
  EXPECT_EQ(names_in(folder), (std::vector<std::string>{".lock", "WRITER"}));
}

TEST(Fence, AWriterOnAnotherMachineLivesWhileItRenewsItsClaim) {
  const Folder folder;
  const auto there = Fence::claim(folder, elsewhere(as_run("default/11"))).value();
  Duration waited(0);
  const auto renewed = watching(as_run("default/12"), waited, [&] {
    if (waited > std::chrono::seconds(3)) renew(folder);
  });
  EXPECT_TRUE(says(Fence::claim(folder, renewed).error(), Code::already_exists,
                   "default/11 (attempt 1, on vm-9)"));
  EXPECT_LT(waited, std::chrono::seconds(5)) << "the first renewal tells";
  waited = Duration(0);
  EXPECT_TRUE(Fence::claim(folder, watching(as_run("default/12"), waited, [] {})));
  EXPECT_EQ(waited, kHeartbeatTimeout);
  EXPECT_EQ(there.check().error().code, Code::denied) << "and may not write if it comes back";
}

TEST(Fence, AWriterOnAnotherMachineThatEndedWellIsNotWaitedFor) {
  const Folder folder;
  {
    const auto there = Fence::claim(folder, elsewhere(as_run("default/11"))).value();
  }
  Duration waited(0);
  EXPECT_TRUE(Fence::claim(folder, watching(as_run("default/12"), waited, [] {})));
  EXPECT_EQ(waited, Duration(0));
}

TEST(Fence, AWriterRenewsItsClaim) {
  const Folder folder;
  auto options = elsewhere({});
  options.heartbeat_interval = std::chrono::milliseconds(1);
  const auto there = Fence::claim(folder, options).value();
  const auto claimed = fs::last_write_time(folder / "WRITER");
  const auto bound = Deadline::after(std::chrono::seconds(30));
  while (fs::last_write_time(folder / "WRITER") == claimed && !bound.passed()) ::usleep(1000);
  EXPECT_NE(fs::last_write_time(folder / "WRITER"), claimed);
}

TEST(Fence, OfTwoRunsThatStartTogetherOneIsRefused) {
  const Folder folder;
  std::atomic<int> claimed = 0, refused = 0;
  std::atomic<bool> done = false;
  const auto start = [&](const std::string& run) {
    const auto fence = Fence::claim(folder, as_run(run));
    fence ? ++claimed : ++refused;
    while (!done) std::this_thread::yield();
  };
  std::thread first(start, "default/11"), second(start, "default/12");
  while (claimed + refused < 2) std::this_thread::yield();
  done = true;
  first.join();
  second.join();
  EXPECT_EQ(claimed, 1);
  EXPECT_EQ(refused, 1);
}

TEST(Fence, AtOpeningALivingSiblingKeepsItsClaim) {
  const Folder folder;
  const auto training = Fence::claim(folder, as_run("demo/3")).value();
  const auto second = Fence::claim_unless_sibling(folder, as_run("demo/3"));
  ASSERT_TRUE(second);
  EXPECT_FALSE(second->has_value());
  EXPECT_TRUE(training.check());
  EXPECT_TRUE(Fence::claim(folder, as_run("demo/3"))) << "the first save of this process";
  EXPECT_FALSE(training.check());
}

TEST(Fence, OthersHearOfAWriterThatMayLive) {
  const Folder folder;
  EXPECT_EQ(other_writer(folder, as_run("default/12")), std::nullopt);
  {
    OtherProcess living(folder, as_run("default/11"));
    EXPECT_TRUE(other_writer(folder, as_run("default/12")).value().starts_with("default/11 (att"));
    living.kill();
    EXPECT_EQ(other_writer(folder, as_run("default/12")), std::nullopt);
  }
  const auto there = Fence::claim(folder, elsewhere(as_run("default/11", 2))).value();
  EXPECT_THAT(other_writer(folder, as_run("default/12")).value(),
              AllOf(HasSubstr("default/11"), HasSubstr("attempt 2"), HasSubstr("vm-9")));
}

TEST(Fence, AForkedChildNeitherKeepsNorReleasesTheClaim) {
  const Folder folder;
  auto fence = std::make_unique<Fence>(Fence::claim(folder, as_run("default/11")).value());
  const pid_t child = ::fork();
  if (child == 0) {
    fence.reset();
    ::pause();
    ::_exit(0);
  }
  const auto stranger = as_run("default/12");
  EXPECT_FALSE(Fence::claim(folder, stranger)) << "the parent holds it";
  EXPECT_TRUE(fence->check());
  fence.reset();
  EXPECT_TRUE(Fence::claim(folder, stranger)) << "the child has no part in it";
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST(Fence, ADamagedClaimIsNamed) {
  const Folder folder;
  ASSERT_TRUE(write_file(folder / "WRITER", "{\"run\":"));
  EXPECT_NE(Fence::claim(folder, {}).error().message.find("WRITER is damaged; remove it if"),
            std::string::npos);
}

TEST(Fence, IsNotClaimedWhileTheFoldersLockIsHeld) {
  const Folder folder;
  const auto fence = Fence::claim(folder, as_attempt(1)).value();
  std::atomic<bool> released = false;
  auto lock = fence.lock().value();
  std::thread other([&] {
    EXPECT_TRUE(Fence::claim(folder, as_attempt(2)));
    EXPECT_TRUE(released);
  });
  EXPECT_TRUE(fence.check());
  released = true;
  lock.reset();
  other.join();
}

TEST(Fence, OvertakenNothingIsMadeVisibleAndNothingDeleted) {
  const Folder folder;
  const auto old = Fence::claim(folder, as_attempt(1)).value();
  ASSERT_TRUE(save(folder, old, layouts()[0], 1));
  ASSERT_TRUE(save(folder, old, layouts()[0], 2));
  const auto later = Fence::claim(folder, as_attempt(2)).value();
  const auto written = unfinished_path(folder, 4, later.claim_id());
  ASSERT_TRUE(make_folders(written));
  EXPECT_EQ(save(folder, old, layouts()[0], 3).error().code, Code::denied);
  EXPECT_EQ(prune_checkpoints(folder, old, 1).error().code, Code::denied);
  EXPECT_EQ(remove_leftovers(folder, old).error().code, Code::denied);
  discard_unfinished(folder, 3, old.claim_id());
  EXPECT_EQ(names_in(folder),
            (std::vector<std::string>{".lock", written.filename().string(), "WRITER",
                                      "step-00000001", "step-00000002"}));
}

TEST(Unfinished, OnlyTheHolderOfTheClaimDeletesWhatEarlierWritersLeft) {
  const Folder folder;
  ASSERT_TRUE(make_folders(folder / ".step-00000007.1.tmp"));
  ASSERT_TRUE(write_file(folder / ".WRITER.0123.tmp", ""));
  const auto fence = Fence::claim(folder, {}).value();
  const auto mine = unfinished_path(folder, 8, fence.claim_id());
  ASSERT_TRUE(make_folders(mine));
  ASSERT_TRUE(remove_leftovers(folder, fence));
  EXPECT_EQ(names_in(folder),
            (std::vector<std::string>{".lock", mine.filename().string(), "WRITER"}));
}

TEST(Unfinished, IsNotMadeVisibleWhereAHostWroteElsewhere) {
  const Folder folder;
  const auto fence = Fence::claim(folder, as_attempt(1)).value();
  Manifest manifest;
  manifest.step = 1;
  manifest.files = {{data_file_name(0), 0, {}}};
  ASSERT_TRUE(make_folders(unfinished_path(folder, 1, fence.claim_id())));
  const auto committed = commit_checkpoint(folder, fence, manifest);
  ASSERT_FALSE(committed);
  EXPECT_NE(committed.error().message.find("is the folder the same one on all hosts?"),
            std::string::npos)
      << committed.error().message;
}

TEST(Writer, IsNamedByTheAgentsVariables) {
  const auto writer = writer_from_environment(
      {{"LOCKSTEP_STORE", "00000000000000aa"}, {"LOCKSTEP_ATTEMPT", "demo/3.2"}}, 1);
  EXPECT_EQ(writer.store, "00000000000000aa");
  EXPECT_EQ(writer.run, "demo/3");
  EXPECT_EQ(writer.attempt, 2);
  EXPECT_EQ(writer.recoveries, 1);
  EXPECT_FALSE(writer_from_environment({}).is_run());
}

}  // namespace
}  // namespace lockstep::train

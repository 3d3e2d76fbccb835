// A save that is killed: not at chosen points, but before every system call that it makes.

#include <csignal>

#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "train/checkpoint/format/layouts_for_test.h"
#include "train/checkpoint/format/list_checkpoints.h"

namespace lockstep::train {
namespace {

using namespace layouts_for_test;
namespace fs = std::filesystem;

constexpr int kCallsMax = 2000;

RankLayout two_ranks() {
  return {"two", 2, [](HeldPart whole, int rank) { return shard_of(whole, rank, 2); }};
}

// The actions of a training at its third checkpoint, when it keeps two.
void save_third(const fs::path& folder) {
  const auto fence = Fence::claim(folder, as_attempt(2));
  const bool done = fence && remove_leftovers(folder, *fence) &&
                    save(folder, *fence, two_ranks(), 3) && prune_checkpoints(folder, *fence, 2);
  ::_exit(done ? 0 : 1);
}

// Runs it in a child up to the child's system call number `calls`; true if the child was killed
// there, and had not ended before.
bool save_killed_at(const fs::path& folder, int calls) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    ::raise(SIGSTOP);
    save_third(folder);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  // Each call stops it twice, before and after.
  for (int stops = 0; WIFSTOPPED(status) && stops < 2 * calls; ++stops) {
    ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    ::waitpid(child, &status, 0);
  }
  if (!WIFSTOPPED(status)) {
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return false;
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  return true;
}

// Every checkpoint is intact; and at least one of the newest two exists.
void expect_loadable(const fs::path& folder, int calls) {
  const auto newest = newest_checkpoint(folder);
  ASSERT_TRUE(newest) << "killed at call " << calls;
  EXPECT_GE(newest->manifest().step, 2) << "killed at call " << calls;
  const auto present = list_checkpoints(folder).value();
  for (const auto& listed : present) {
    const auto checkpoint = SavedCheckpoint::open(listed.path);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message << ", killed at call " << calls;
    EXPECT_TRUE(checkpoint->verify()) << "killed at call " << calls;
  }
}

TEST(Killed, AtAnyMomentASaveLeavesWholeCheckpointsOnlyAndTheNextOneClearsUp) {
  int calls = 0;
  for (bool killed = true; killed; ++calls) {
    ASSERT_LT(calls, kCallsMax);
    const Folder folder;
    save(folder, two_ranks(), 1);
    save(folder, two_ranks(), 2);
    killed = save_killed_at(folder, calls);
    expect_loadable(folder, calls);
    const auto fence = Fence::claim(folder, as_attempt(3));
    ASSERT_TRUE(fence && remove_leftovers(folder, *fence));
    for (const auto& name : names_in(folder))
      EXPECT_FALSE(name.starts_with(".step-") || name.starts_with(".WRITER"))
          << name << ", killed at call " << calls;
  }
  EXPECT_GT(calls, 20) << "it was traced";
}

}  // namespace
}  // namespace lockstep::train

#include "base/os/fork_guard.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/fd.h"

namespace lockstep {
namespace {

Fd opened() { return Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }
bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

// Runs it in a forked child, and returns the result.
template <typename Question>
bool in_forked_child(const Question& question) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(question() ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(ForkGuard, AForkedChildLosesTheDescriptorAndItsParentKeepsIt) {
  const Fd file = opened();
  ForkGuard guard;
  guard.add(file.get());
  EXPECT_TRUE(in_forked_child([&] { return !is_open(file.get()) && guard.in_child(); }));
  EXPECT_TRUE(is_open(file.get()));
  EXPECT_FALSE(guard.in_child());
}

TEST(ForkGuard, AChildOfTheChildKeepsWhatTheChildOpenedUnderTheSameNumber) {
  const Fd file = opened();
  ForkGuard guard;
  guard.add(file.get());
  EXPECT_TRUE(in_forked_child([&] {
    const int same = ::dup2(STDIN_FILENO, file.get());
    return same == file.get() && in_forked_child([&] { return is_open(same); });
  }));
}

TEST(ForkGuard, AGuardThatIsGoneClosesNothing) {
  const Fd file = opened();
  {
    ForkGuard{}.add(file.get());
  }
  EXPECT_TRUE(in_forked_child([&] { return is_open(file.get()); }));
}

}  // namespace
}  // namespace lockstep

#include "base/os/spawn.h"

#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/files.h"

namespace lockstep {
namespace {

// All output until every writer is gone.
std::string read_all(const Fd& pipe) {
  std::string all;
  char buffer[256];
  for (ssize_t n = 0; (n = ::read(pipe.get(), buffer, sizeof buffer)) > 0;)
    all.append(buffer, static_cast<std::size_t>(n));
  return all;
}

ProcessSpec shell(std::string script, const Pipe& pipe) {
  return {.command = {"sh", "-c", std::move(script)},
          .environment = {{"PATH", "/usr/bin:/bin"}, {"COLOR", "blue"}},
          .folder = "/",
          .output = pipe.write.get()};
}

// The program's output until its end, for which this waits.
std::string said_by(const std::string& script,
                    ProcessLifetime bond = ProcessLifetime::ends_with_thread) {
  Pipe pipe = make_pipe().value();
  const pid_t pid = spawn(shell(script, pipe), bond).value();
  pipe.write.reset();
  std::string all = read_all(pipe.read);
  ::waitpid(pid, nullptr, 0);
  return all;
}

TEST(Spawn, AProgramHasTheFolderEnvironmentAndOutputThatItWasGiven) {
  EXPECT_EQ(said_by("pwd; echo $COLOR >&2; echo ${HOME-none}; cat"), "/\nblue\nnone\n");
}

TEST(Spawn, AProgramRunsOnTheProcessorsThatItWasGiven) {
  cpu_set_t usable;
  ASSERT_EQ(::sched_getaffinity(0, sizeof usable, &usable), 0);
  int last = CPU_SETSIZE - 1;
  while (!CPU_ISSET(last, &usable)) --last;
  Pipe pipe = make_pipe().value();
  ProcessSpec program = shell("grep Cpus_allowed_list /proc/self/status", pipe);
  program.processors = {last};
  const pid_t pid = spawn(program, ProcessLifetime::ends_with_thread).value();
  pipe.write.reset();
  EXPECT_EQ(read_all(pipe.read), "Cpus_allowed_list:\t" + std::to_string(last) + "\n");
  ::waitpid(pid, nullptr, 0);
  program.processors = {CPU_SETSIZE};
  EXPECT_EQ(spawn(program, ProcessLifetime::ends_with_thread).error().code, Code::invalid);
}

TEST(Spawn, AProgramFindsNothingOpenThatItsStarterHas) {
  const Fd leaky(::open("/dev/null", O_RDONLY));  // not close-on-exec, as libraries open theirs
  EXPECT_EQ(said_by("exec ls /proc/self/fd"), "0\n1\n2\n3\n");  // 3 is that of ls itself
}

TEST(Spawn, ItsOutputMayBeOneOfTheStandardFilesOfItsStarter) {
  Pipe pipe = make_pipe().value();
  const Fd kept(::fcntl(1, F_DUPFD_CLOEXEC, 3));
  ::dup3(pipe.write.get(), 1, O_CLOEXEC);
  ProcessSpec program = shell("echo heard", pipe);
  program.output = 1;
  const auto pid = spawn(program, ProcessLifetime::ends_with_thread);
  ::dup2(kept.get(), 1);
  pipe.write.reset();
  EXPECT_EQ(read_all(pipe.read), "heard\n");
  ::waitpid(pid.value(), nullptr, 0);
}

TEST(Spawn, SignalsAreAsFromTheShellWhateverTheStarterDoesWithThem) {
  ::signal(SIGUSR1, SIG_IGN);
  sigset_t set, before;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &set, &before);
  EXPECT_EQ(said_by("grep -E '^Sig(Blk|Ign)' /proc/self/status"),
            "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::signal(SIGUSR1, SIG_DFL);
}

TEST(Spawn, ABoundChildLeadsAGroupAndDiesWithTheThreadThatStartedIt) {
  Pipe pipe = make_pipe().value();
  pid_t pid = 0;
  std::thread([&] {
    pid = spawn(shell("exec sleep 600", pipe), ProcessLifetime::ends_with_thread).value();
  }).join();
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  const std::string said = said_by("echo $$ $(ps -o pgid= -p $$)");
  EXPECT_EQ(said.substr(0, said.find(' ')) + "\n", said.substr(said.find(' ') + 1));
}

TEST(Spawn, ASessionOfItsOwnOutlivesItsStartersTerminal) {
  const std::string said = said_by("echo $$ $(ps -o sid= -p $$)", ProcessLifetime::own_session);
  EXPECT_EQ(said.substr(0, said.find(' ')) + "\n", said.substr(said.find(' ') + 1));
}

TEST(Spawn, ADetachedProgramIsNobodysChildHere) {
  Pipe pipe = make_pipe().value();
  ASSERT_TRUE(spawn_detached(shell("echo $PPID; exec sleep 0", pipe)));
  pipe.write.reset();
  EXPECT_NE(read_all(pipe.read), format("{}\n", ::getpid()));
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
}

TEST(Spawn, AProgramMayHaveAnotherNameThanItsFile) {
  Pipe pipe = make_pipe().value();
  ProcessSpec program = shell("echo $0", pipe);
  program.file = "/bin/sh";
  program.command.front() = "agent";
  const pid_t pid = spawn(program, ProcessLifetime::ends_with_thread).value();
  pipe.write.reset();
  EXPECT_EQ(read_all(pipe.read), "agent\n");
  ::waitpid(pid, nullptr, 0);
}

TEST(Spawn, WhatIsMissingIsNamedAndNoProcessIsLeft) {
  const auto folder = std::filesystem::temp_directory_path() / format("spawn-{}", ::getpid());
  ASSERT_TRUE(make_folders(folder));
  const auto plain = folder / "plain", text = folder / "text";
  ASSERT_TRUE(write_file(plain, "no program"));
  ASSERT_TRUE(write_file(text, "no program", 0700));
  struct Case {
    std::string program, folder, words;
  };
  const Case cases[] = {
      {"no-such-program", "/", "no program 'no-such-program' in PATH (/bin)"},
      {plain, "/", plain.string() + ": Permission denied"},
      {text, "/", "not a program of this machine; name its interpreter"},
      {"/bin/true", "/no/such/folder", "working folder /no/such/folder: No such"}};
  for (const Case& c : cases) {
    const ProcessSpec program{
        .command = {c.program}, .environment = {{"PATH", "/bin"}}, .folder = c.folder, .output = 1};
    const auto bound = spawn(program, ProcessLifetime::ends_with_thread);
    ASSERT_FALSE(bound) << c.program;
    EXPECT_NE(bound.error().message.find(c.words), std::string::npos) << bound.error().message;
    const auto detached = spawn_detached(program);
    ASSERT_FALSE(detached) << c.program;
    EXPECT_EQ(detached.error().message, bound.error().message);
  }
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  std::filesystem::remove_all(folder);
}

// A process with a mount namespace of its own, in which /mnt has other files; where user namespaces
// are allowed also with one of those. 0: this machine allows neither.
pid_t start_container(const Pipe& pipe, bool own_user_namespace) {
  ProcessSpec container = shell(
      "mount -t tmpfs none /mnt 2>/dev/null && mkdir /mnt/bin && "
      "printf '#!/bin/sh\\necho inside; pwd; [ -e /mnt/bin ] && echo seen\\n' > /mnt/bin/hello && "
      "chmod +x /mnt/bin/hello && echo ready || echo no; exec sleep 100",
      pipe);
  container.command.insert(container.command.begin(), {"unshare", "--mount"});
  if (own_user_namespace) container.command.insert(container.command.begin() + 1, "-r");
  const pid_t pid = spawn(container, ProcessLifetime::ends_with_thread).value();
  char word[6] = {};
  const ssize_t n = ::read(pipe.read.get(), word, sizeof word);
  if (n == 6 && std::string_view(word, 5) == "ready") return pid;
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  return 0;
}

class SpawnInContainer : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    container_ = start_container(pipe_, GetParam());
    if (container_ == 0) GTEST_SKIP() << "this machine allows no mount namespace here";
  }
  void TearDown() override {
    if (container_ == 0) return;
    ::kill(container_, SIGKILL);
    ::waitpid(container_, nullptr, 0);
  }
  ProcessSpec program(std::vector<std::string> command) const {
    return {.command = std::move(command),
            .environment = {{"PATH", "/nowhere:/mnt/bin:/usr/bin:/bin"}},
            .folder = "/mnt",
            .output = pipe_.write.get(),
            .container = container_};
  }

  Pipe pipe_ = make_pipe().value();
  pid_t container_ = 0;
};

TEST_P(SpawnInContainer, AProgramOfTheContainerIsAChildOfItsStarter) {
  EXPECT_NE(::access("/mnt/bin/hello", F_OK), 0);
  const pid_t pid = spawn(program({"hello"}), ProcessLifetime::ends_with_thread).value();
  EXPECT_EQ(::waitpid(pid, nullptr, 0), pid);
  char said[64] = {};
  EXPECT_GT(::read(pipe_.read.get(), said, sizeof said), 0);
  EXPECT_EQ(std::string_view(said), "inside\n/mnt\nseen\n");
}

TEST_P(SpawnInContainer, AProgramDiesWithTheThreadThatStartedIt) {
  pid_t pid = 0;
  std::thread starter(
      [&] { pid = spawn(program({"sleep", "1000"}), ProcessLifetime::ends_with_thread).value(); });
  starter.join();
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST_P(SpawnInContainer, AProgramThatOnlyTheHostHasIsMissing) {
  const auto started = spawn(program({"goodbye"}), ProcessLifetime::ends_with_thread);
  ASSERT_FALSE(started);
  EXPECT_NE(started.error().message.find("the container has no such program"), std::string::npos);
  EXPECT_NE(started.error().message.find("/nowhere:/mnt/bin:/usr/bin:/bin"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(All, SpawnInContainer, testing::Bool(), [](const auto& info) {
  return info.param ? "OfAUserNamespace" : "OfThisUserNamespace";
});

TEST(Spawn, AContainerThatHasEndedIsMissed) {
  Pipe pipe = make_pipe().value();
  ProcessSpec program = shell("true", pipe);
  program.container = 1 << 30;
  const auto started = spawn(program, ProcessLifetime::ends_with_thread);
  ASSERT_FALSE(started);
  EXPECT_NE(started.error().message.find("entering the container"), std::string::npos);
}

TEST(Spawn, TheOwnEnvironmentIsWhatThisProcessHas) {
  ::setenv("SPAWN_TEST", "a=b", 1);
  EXPECT_EQ(own_environment().at("SPAWN_TEST"), "a=b");
}

}  // namespace
}  // namespace lockstep

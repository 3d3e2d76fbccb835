#include "platform/engine/local/process_watch.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/os/files.h"
#include "base/os/processes.h"
#include "base/os/spawn.h"
#include "base/temporary_folder_for_test.h"
#include "platform/engine/local/eventually_for_test.h"

namespace lockstep::engine {
namespace {

using std::chrono::seconds;

constexpr std::string_view kMark = "LOCKSTEP_WATCH_TEST";

// Shells in their own sessions, which end with the test.
class ProcessWatchTest : public ::testing::Test {
 protected:
  ProcessWatchTest() {
    mark_ = folder_.path().filename();
    EXPECT_EQ(::mkfifo((folder_ / "go").c_str(), 0600), 0);
  }
  ~ProcessWatchTest() override {
    for (const pid_t pid : started_) {
      ::kill(-pid, SIGKILL);  // a session's leader leads its group
      ::waitpid(pid, nullptr, 0);
    }
  }

  enum class With { mark, other_mark, nothing };
  pid_t start(const std::string& script, With with) {
    const Fd log = open_file(folder_ / "log", O_WRONLY | O_CREAT | O_APPEND).value();
    ProcessSpec program{.command = {"/bin/sh", "-c", script},
                        .environment = {{"PATH", "/usr/bin:/bin"}},
                        .folder = folder_,
                        .output = log.get()};
    if (with == With::mark) program.environment[std::string(kMark)] = mark_;
    if (with == With::other_mark) program.environment[std::string(kMark)] = other_mark();
    started_.push_back(spawn(program, ProcessLifetime::own_session).value());
    return started_.back();
  }
  void end(pid_t pid) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    std::erase(started_, pid);
  }
  // Lets the script continue that reads a word from the file `go`.
  void go() const {
    const Fd file = open_file(folder_ / "go", O_WRONLY).value();
    EXPECT_TRUE(write_all(file.get(), "on\n"));
  }
  // The process that the script started in the background and wrote to the file `child`, once it
  // runs the program: during exec a process shows no environment, on a busy machine for many scans.
  pid_t child_running(std::string_view program) const {
    pid_t child = 0;
    EXPECT_TRUE(eventually([&] {
      child = ::atoi(read_file(folder_ / "child").value_or("").c_str());
      const auto command = read_file(format("/proc/{}/cmdline", child)).value_or("");
      return child > 0 && command.starts_with(program);
    }));
    return child;
  }
  std::string other_mark() const { return mark_ + "-other"; }
  bool sees(ProcessWatch& watch) const { return sees(watch, mark_); }
  static bool sees(ProcessWatch& watch, const std::string& mark) {
    const auto marks = watch.marks();
    return marks && marks->contains(mark);
  }

  const TemporaryFolder folder_;
  std::string mark_;
  std::vector<pid_t> started_;
};

TEST_F(ProcessWatchTest, AMarkIsSeenFromTheStartOfAProcessToTheEndOfItsLastChild) {
  ProcessWatch watch(kMark);
  EXPECT_FALSE(sees(watch));
  const pid_t parent = start("setsid sleep 600 & echo $! > child; wait", With::mark);
  EXPECT_TRUE(eventually([&] { return sees(watch); }));
  const pid_t child = child_running("sleep");
  end(parent);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(sees(watch));
  ::kill(child, SIGKILL);
  EXPECT_TRUE(eventually([&] { return !sees(watch); }));
}

TEST_F(ProcessWatchTest, WhatClearsItsEnvironmentKeepsTheMarkThatItWasSeenWith) {
  ProcessWatch watch(kMark);
  const pid_t pid = start("read word < go; exec env -i /bin/sleep 600", With::mark);
  ASSERT_TRUE(eventually([&] { return sees(watch); }));
  go();
  const std::string command = format("/proc/{}/cmdline", pid);
  ASSERT_TRUE(
      eventually([&] { return read_file(command).value_or("").starts_with("/bin/sleep"); }));
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(sees(watch));
}

TEST_F(ProcessWatchTest, EachProgramIsReadOnce) {
  std::atomic<int> reads = 0;
  ProcessWatch watch([&](pid_t pid) -> std::optional<std::string> {
    if (pid == ::getpid()) ++reads;
    return environment_variable_of(pid, kMark);
  });
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(watch.marks());
  EXPECT_EQ(reads, 1);
}

TEST_F(ProcessWatchTest, WhatIsExpectedCountsUntilTwoLooksHaveNotSeenIt) {
  ProcessWatch watch(kMark);
  ASSERT_TRUE(watch.marks());
  watch.expect(mark_);
  EXPECT_TRUE(sees(watch));
  EXPECT_TRUE(eventually([&] { return !sees(watch); }));
}

TEST_F(ProcessWatchTest, KillEndsAllThatCarryTheMarkAndWhatIsBelowThem) {
  ProcessWatch watch(kMark);
  const pid_t pid = start("env -i /bin/sleep 600 & setsid sleep 600 & wait", With::mark);
  ASSERT_TRUE(eventually([&] { return sees(watch); }));
  watch.kill(mark_);
  int status = 0;
  EXPECT_TRUE(eventually([&] { return ::waitpid(pid, &status, WNOHANG) == pid; }));
  std::erase(started_, pid);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(eventually([&] { return !sees(watch); }));
}

// Blocks reads of the environment of the chosen process until the gate is opened.
class Gate {
 public:
  std::optional<std::string> read(pid_t pid) {
    const auto process = find_process(pid);
    Lock lock(mutex_);
    const bool is_held = process && (pid == held_ || process->parent == parent_of_held_);
    const auto deadline = Deadline::after(seconds(30));
    while (is_held && !open_ && !deadline.passed()) {
      waits_ = true;
      changed_.wait_until(mutex_, deadline);
    }
    return environment_variable_of(pid, kMark);
  }
  void hold(pid_t pid) {
    Lock lock(mutex_);
    held_ = pid;
  }
  void hold_children_of(pid_t pid) {
    Lock lock(mutex_);
    parent_of_held_ = pid;
  }
  void open() {
    Lock lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  bool is_waited_at() {
    Lock lock(mutex_);
    return waits_;
  }

 private:
  Mutex mutex_;  // guards what follows
  Condition changed_;
  pid_t held_ LS_GUARDED_BY(mutex_) = -1;
  pid_t parent_of_held_ LS_GUARDED_BY(mutex_) = -1;
  bool open_ LS_GUARDED_BY(mutex_) = false;
  bool waits_ LS_GUARDED_BY(mutex_) = false;
};

TEST_F(ProcessWatchTest, AProcessThatHangsHoldsUpNeitherTheCallerNorTheNextLooks) {
  const auto gate = std::make_shared<Gate>();
  ProcessWatch watch([gate](pid_t pid) { return gate->read(pid); });
  const pid_t marked = start("exec sleep 600", With::mark);
  ASSERT_TRUE(eventually([&] { return sees(watch); }));
  const pid_t stranger = start("read word < go; exec sleep 600", With::nothing);
  gate->hold(stranger);
  go();  // its exec makes it another program
  ASSERT_TRUE(eventually([&] { return (void)watch.marks(), gate->is_waited_at(); }));
  end(marked);
  EXPECT_TRUE(eventually([&] {
    const auto bound = Deadline::after(seconds(10));  // the gate is closed for longer
    const bool seen = sees(watch);
    EXPECT_FALSE(bound.passed());
    return !seen;
  }));
  gate->open();
  EXPECT_TRUE(eventually([&] { return watch.marks().has_value(); }));
}

TEST_F(ProcessWatchTest, AProcessThatDoesNotLetItselfBeReadCountsAsItsParentDoes) {
  const auto gate = std::make_shared<Gate>();
  ProcessWatch watch([gate](pid_t pid) { return gate->read(pid); });
  const pid_t parent = start("read word < go; sleep 600 & echo $! > child; wait", With::mark);
  ASSERT_TRUE(eventually([&] { return sees(watch); }));
  gate->hold_children_of(parent);
  go();
  const pid_t child = child_running("sleep");
  ASSERT_TRUE(eventually([&] { return (void)watch.marks(), gate->is_waited_at(); }));
  // Once it has been given up, scans complete again and show new processes; the parent may end
  // then.
  start("exec sleep 600", With::other_mark);
  ASSERT_TRUE(eventually([&] { return sees(watch, other_mark()); }));
  end(parent);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(sees(watch));
  ::kill(child, SIGKILL);
  EXPECT_TRUE(eventually([&] { return !sees(watch); }));
  gate->open();
}

}  // namespace
}  // namespace lockstep::engine

// Two processes that a plugin connects, and a parent that waits for them. A process exchanges lines
// of bytes with the other, as NCCL's bootstrap does. The parent never loads libfabric.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>
#include <system_error>

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/nccl_plugin/loaded_plugin.h"

namespace lockstep::comm::nccl::testing_plugin {

// In a child: ends it, and with that the test.
#define REQUIRE(condition)                                                           \
  do {                                                                               \
    if (!(condition)) {                                                              \
      std::fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      ::_exit(1);                                                                    \
    }                                                                                \
  } while (false)

class Side {
 public:
  Side(int bootstrap, int number) : bootstrap_(bootstrap), number_(number) {}
  int number() const { return number_; }
  template <class Value>
  void tell(const Value& value) {
    REQUIRE(::write(bootstrap_, &value, sizeof value) == sizeof value);
  }
  template <class Value>
  Value hear() {
    Value value;
    auto* bytes = reinterpret_cast<char*>(&value);
    for (std::size_t done = 0; done < sizeof value;) {
      const auto got = ::read(bootstrap_, bytes + done, sizeof value - done);
      REQUIRE(got > 0);
      done += static_cast<std::size_t>(got);
    }
    return value;
  }
  bool can_hear() const {
    pollfd end{bootstrap_, POLLIN, 0};
    return ::poll(&end, 1, 0) > 0;
  }
  void barrier() {
    tell(char{1});
    (void)hear<char>();
  }

 private:
  int bootstrap_;
  int number_;
};

using Body = std::function<void(Side&)>;
inline constexpr int kKilled = 1000;  // status_of_child() of a child that SIGKILL ended

inline int status_of_child(pid_t child, const Deadline& deadline) {
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (deadline.passed()) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      return -1;
    }
    ::usleep(1000);
  }
  if (WIFSIGNALED(status)) return WTERMSIG(status) == SIGKILL ? kKilled : 100 + WTERMSIG(status);
  return WEXITSTATUS(status);
}

// libfabric's shm provider leaves its memory if a process ends without closing it.
inline void remove_shared_memory(pid_t process) {
  const std::string prefix = std::to_string(process) + ":";
  std::error_code failure;
  for (const auto& file : std::filesystem::directory_iterator("/dev/shm", failure))
    if (file.path().filename().string().starts_with(prefix))
      std::filesystem::remove(file.path(), failure);
}

// Runs both bodies in processes of their own. expected: how each ends.
inline void run_two(const Body& first, const Body& second, std::array<int, 2> expected = {0, 0}) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  const std::array<const Body*, 2> bodies = {&first, &second};
  std::array<pid_t, 2> children{};
  for (const int number : {0, 1}) {
    const auto n = static_cast<std::size_t>(number);
    children[n] = ::fork();
    ASSERT_GE(children[n], 0);
    if (children[n] == 0) {
      ::close(ends[1 - n]);
      Side side(ends[n], number);
      (*bodies[n])(side);
      ::_exit(0);
    }
  }
  for (const int end : ends) ::close(end);
  const auto deadline = Deadline::after(std::chrono::seconds(60));
  for (std::size_t n = 0; n < children.size(); ++n)
    EXPECT_EQ(status_of_child(children[n], deadline), expected[n]) << "process " << n;
  for (const pid_t child : children) remove_shared_memory(child);
}

}  // namespace lockstep::comm::nccl::testing_plugin

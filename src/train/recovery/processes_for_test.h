// For tests: forked processes that send lines of text. The forking process has no threads, because
// a child would find their locks taken without end: rendezvous servers and reference trainings get
// processes, too.
#pragma once

#include <cstddef>
#include <cstdio>
#include <functional>
#include <string>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/format.h"
#include "base/os/fd.h"
#include "base/os/files.h"
#include "base/result.h"
#include "net/socket.h"

namespace lockstep::train::processes_for_test {

inline void say(int fd, const std::string& line) {
  LS_CHECK(write_all(fd, line + "\n").has_value());
}

// A rank's process and its output.
struct Process {
  pid_t pid = 0;
  Fd output;

  static Process start(const std::function<Result<void>(int report)>& body) {
    int ends[2];
    LS_CHECK(::pipe2(ends, O_CLOEXEC) == 0);
    const pid_t pid = ::fork();
    if (pid != 0) {
      ::close(ends[1]);
      return {pid, Fd(ends[0])};
    }
    ::close(ends[0]);
    const auto done = body(ends[1]);
    if (!done) say(ends[1], format("error {}", done.error().message));
    std::fflush(nullptr);
    ::_exit(done ? 0 : 1);
  }

  std::string read_line(Deadline deadline) const {
    std::string line;
    char c = 0;
    while (net::wait_ready(output.get(), POLLIN, deadline, "reading") &&
           ::read(output.get(), &c, 1) == 1 && c != '\n')
      line += c;
    return line;
  }

  // Until it ends; killed at the deadline.
  std::string read_all(Deadline deadline) {
    std::string text;
    char chunk[4096];
    while (net::wait_ready(output.get(), POLLIN, deadline, "reading")) {
      const auto got = ::read(output.get(), chunk, sizeof chunk);
      if (got <= 0) break;
      text.append(chunk, static_cast<std::size_t>(got));
    }
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    return text;
  }
};

}  // namespace lockstep::train::processes_for_test

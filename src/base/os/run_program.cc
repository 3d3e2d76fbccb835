#include "base/os/run_program.h"

#include <cerrno>
#include <chrono>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/format.h"
#include "base/os/spawn.h"

namespace lockstep {
namespace {

constexpr std::size_t kOutputMax = 1 << 20;
constexpr auto kEndInterval = std::chrono::milliseconds(20);

// False at the deadline. A program that it leaves behind may keep the pipe open, so its own end
// counts, too.
bool read_until_end(pid_t process, int pipe, const Deadline& deadline, std::string& output,
                    int& status) {
  char buffer[1 << 14];
  bool ended = false;
  while (!deadline.passed()) {
    pollfd ready{.fd = pipe, .events = POLLIN, .revents = 0};
    ::poll(&ready, 1, static_cast<int>(kEndInterval.count()));
    const ssize_t n = ::read(pipe, buffer, sizeof buffer);
    if (n > 0 && output.size() < kOutputMax) output.append(buffer, static_cast<std::size_t>(n));
    if (n > 0) continue;
    if (ended) return true;
    const pid_t found = ::waitpid(process, &status, WNOHANG);
    ended = found == process || (found < 0 && errno == ECHILD);
  }
  return ended;
}

void cut_white_space(std::string& text) { text.erase(text.find_last_not_of(" \t\r\n") + 1); }

// A file in memory that takes the errors of a program.
Result<Fd> make_error_file() {
  Fd file(::memfd_create("errors", MFD_CLOEXEC));
  if (!file) return os_error("making a file for a program's errors", errno);
  return file;
}

std::string content_of(const Fd& file) {
  std::string content(kOutputMax, '\0');
  const ssize_t n = ::pread(file.get(), content.data(), content.size(), 0);
  content.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return content;
}

}  // namespace

Result<ProgramEnd> run_program(const std::vector<std::string>& command, Duration limit,
                               const Environment& environment, StandardError errors) {
  Pipe pipe = TRY(make_pipe());
  ::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
  const Fd separate = errors == StandardError::separate ? TRY(make_error_file()) : Fd();
  const pid_t process = TRY(spawn({.command = command,
                                   .environment = environment,
                                   .folder = "/",
                                   .output = pipe.write.get(),
                                   .errors = separate.get()},
                                  ProcessLifetime::ends_with_thread));
  pipe.write.reset();
  ProgramEnd end;
  int status = 0;
  if (!read_until_end(process, pipe.read.get(), Deadline::after(limit), end.output, status)) {
    ::kill(-process, SIGKILL);
    while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
    }
    return Error{Code::timeout, format("{} has not ended within {}", command[0], text(limit))};
  }
  end.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (separate) end.errors = content_of(separate);
  cut_white_space(end.output);
  cut_white_space(end.errors);
  return end;
}

}  // namespace lockstep

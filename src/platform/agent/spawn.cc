// fork and exec by hand, because posix_spawn has no parent-death signal. Between the two only
// async-signal-safe calls are allowed (other threads may hold malloc's lock at the moment of the
// fork), so everything is laid out before. What fails in the child comes back over a close-on-exec
// pipe: its end without a word means that exec succeeded.
#include "platform/agent/spawn.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep {
namespace {

enum class Stage : int { folder, files, program };
struct Failure {
  Stage stage;
  int error;
};

struct Pipe {
  Fd read, write;
};
Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return os_error("making a pipe", errno);
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

bool is_program(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
}

// What execvp would find, but with the rank's own PATH and folder.
Result<std::filesystem::path> find_program(const Program& program) {
  const std::string& name = program.command.front();
  if (name.find('/') != std::string::npos) return program.folder / name;
  auto path = program.environment.find("PATH");
  std::string folders = path == program.environment.end() ? "/usr/bin:/bin" : path->second;
  for (std::size_t begin = 0; begin <= folders.size();) {
    std::size_t end = std::min(folders.find(':', begin), folders.size());
    auto candidate = program.folder / folders.substr(begin, end - begin) / name;
    if (is_program(candidate)) return candidate;
    begin = end + 1;
  }
  return Error{Code::not_found, format("no program '{}' in PATH ({}): install it on this host, or "
                                       "give its full path",
                                       name, folders)};
}

// What the child needs, laid out for it before the fork.
struct Layout {
  std::string program, folder;
  std::vector<std::string> environment;
  std::vector<char*> argv, envp;
  int output = -1, failure = -1, null = -1;
  pid_t parent = 0;
};

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  for (auto& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

void reset_signals() {
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void give_up(const Layout& layout, Stage stage) {
  Failure failure{stage, errno};
  [[maybe_unused]] auto n = ::write(layout.failure, &failure, sizeof failure);
  ::_exit(127);
}

[[noreturn]] void become(const Layout& layout) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != layout.parent) ::_exit(127);  // it died before the line above
  ::setpgid(0, 0);
  reset_signals();
  if (::dup2(layout.null, 0) < 0 || ::dup2(layout.output, 1) < 0 || ::dup2(layout.output, 2) < 0)
    give_up(layout, Stage::files);
  if (::chdir(layout.folder.c_str()) != 0) give_up(layout, Stage::folder);
  ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);  // Asio's sockets, which are not so by themselves
  ::execve(layout.program.c_str(), layout.argv.data(), layout.envp.data());
  give_up(layout, Stage::program);
}

Error explain(const Layout& layout, const Failure& failure) {
  switch (failure.stage) {
    case Stage::folder:
      return os_error("entering the working folder " + layout.folder, failure.error);
    case Stage::files:
      return os_error("starting " + layout.program, failure.error);
    case Stage::program:
      break;
  }
  if (failure.error == ENOEXEC)
    return Error{Code::invalid, format("starting {}: not a program of this machine; name its "
                                       "interpreter, as in `python {}`",
                                       layout.program, layout.program)};
  return os_error("starting " + layout.program, failure.error);
}

// Nothing once the program runs.
Result<void> await_exec(pid_t pid, const Layout& layout, const Fd& failures) {
  Failure failure{};
  ssize_t n = 0;
  do n = ::read(failures.get(), &failure, sizeof failure);
  while (n < 0 && errno == EINTR);
  if (n == 0) return {};
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) continue;
  if (n != sizeof failure) return os_error("starting " + layout.program, EIO);
  return explain(layout, failure);
}

}  // namespace

Result<Child> spawn(const Program& program) {
  Layout layout;
  layout.program = TRY(find_program(program)).string();
  layout.folder = program.folder.string();
  for (const auto& [name, value] : program.environment)
    layout.environment.push_back(name + "=" + value);
  std::vector<std::string> command = program.command;
  layout.argv = pointers(command);
  layout.envp = pointers(layout.environment);

  Pipe output = TRY(make_pipe());
  Pipe failures = TRY(make_pipe());
  Fd null = TRY(open_file("/dev/null", O_RDONLY));
  layout.output = output.write.get();
  layout.failure = failures.write.get();
  layout.null = null.get();
  layout.parent = ::getpid();

  pid_t pid = ::fork();
  if (pid < 0) return os_error("starting " + layout.program + ": fork", errno);
  if (pid == 0) become(layout);
  ::setpgid(pid, pid);  // here too: whoever comes first, the group is there before it is signalled
  failures.write.reset();
  TRY(await_exec(pid, layout, failures.read));
  ::fcntl(output.read.get(), F_SETFL, O_NONBLOCK);
  return Child{pid, std::move(output.read)};
}

}  // namespace lockstep

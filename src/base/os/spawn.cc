// By hand, because posix_spawn has no parent-death signal. Between fork and exec only
// async-signal-safe calls are allowed (other threads may hold malloc's lock at the moment of the
// fork), so all arguments are prepared before the fork. The child reports a failure over a
// close-on-exec pipe: an end of file without data means that exec succeeded.
#include "base/os/spawn.h"

#include <cerrno>
#include <csignal>
#include <optional>
#include <string_view>

#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/files.h"

namespace lockstep {
namespace {

enum class SpawnStep : int { folder, files, processors, account, fork, program };
struct Failure {
  SpawnStep stage;
  int error;
};

Result<std::filesystem::path> path_of(const ProcessSpec& program) {
  if (!program.file.empty()) return program.folder / program.file;
  const std::string& name = program.command.front();
  if (name.find('/') != std::string::npos) return program.folder / name;
  if (auto found = find_program(name, program.environment, program.folder)) return *found;
  return Error{Code::not_found, format("no program '{}' in PATH ({}): install it on this host, or "
                                       "give its full path",
                                       name, search_path(program.environment))};
}

// A copy with a number above 0, 1 and 2, which the child replaces.
Result<Fd> duplicate_above_stdio(int fd) {
  Fd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (!copy) return os_error("copying a file descriptor", errno);
  return copy;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  for (auto& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

// The child's arguments, prepared before the fork.
struct Layout {
  std::string program, folder;
  std::vector<std::string> command, environment;
  std::vector<char*> argv, envp;
  Fd input, output, failure;
  std::optional<cpu_set_t> processors;
  std::optional<Account> account;
  pid_t parent = ::getpid();
};

Result<Layout> prepare_child(const ProcessSpec& program, int failure) {
  Layout layout;
  layout.program = TRY(path_of(program)).string();
  layout.folder = program.folder.string();
  layout.account = program.account;
  layout.command = program.command;
  for (const auto& [name, value] : program.environment)
    layout.environment.push_back(name + "=" + value);
  layout.argv = pointers(layout.command);
  layout.envp = pointers(layout.environment);
  layout.input = TRY(duplicate_above_stdio(TRY(open_file("/dev/null", O_RDONLY)).get()));
  layout.output = TRY(duplicate_above_stdio(program.output));
  layout.failure = TRY(duplicate_above_stdio(failure));
  if (program.processors.empty()) return layout;
  CPU_ZERO(&layout.processors.emplace());
  for (const int processor : program.processors) {
    if (processor < 0 || processor >= CPU_SETSIZE)
      return Error{Code::invalid, format("there is no processor {}", processor)};
    CPU_SET(processor, &*layout.processors);
  }
  return layout;
}

// --- In the child ---

[[noreturn]] void exit_with_failure(const Layout& layout, SpawnStep stage) {
  const Failure failure{stage, errno};
  [[maybe_unused]] auto n = ::write(layout.failure.get(), &failure, sizeof failure);
  ::_exit(127);
}

void reset_signals() {
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

void become(const Layout& layout) {
  const Account& account = *layout.account;
  if (::setgroups(account.groups.size(), account.groups.data()) != 0 ||
      ::setgid(account.group) != 0 || ::setuid(account.user) != 0)
    exit_with_failure(layout, SpawnStep::account);
}

[[noreturn]] void exec_program(const Layout& layout) {
  reset_signals();
  if (::dup2(layout.input.get(), 0) < 0 || ::dup2(layout.output.get(), 1) < 0 ||
      ::dup2(layout.output.get(), 2) < 0)
    exit_with_failure(layout, SpawnStep::files);
  if (layout.processors &&
      ::sched_setaffinity(0, sizeof *layout.processors, &*layout.processors) != 0)
    exit_with_failure(layout, SpawnStep::processors);
  if (layout.account) become(layout);
  if (::chdir(layout.folder.c_str()) != 0) exit_with_failure(layout, SpawnStep::folder);
  ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);  // libraries' files may lack the flag
  ::execve(layout.program.c_str(), layout.argv.data(), layout.envp.data());
  exit_with_failure(layout, SpawnStep::program);
}

[[noreturn]] void exec_child(const Layout& layout, ProcessLifetime lifetime) {
  if (lifetime == ProcessLifetime::own_session) {
    ::setsid();
  } else {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != layout.parent) ::_exit(127);  // the parent died before the prctl call
    ::setpgid(0, 0);
  }
  exec_program(layout);
}

[[noreturn]] void exec_detached(const Layout& layout) {
  ::setsid();
  const pid_t pid = ::fork();
  if (pid < 0) exit_with_failure(layout, SpawnStep::fork);
  if (pid == 0) exec_program(layout);
  ::_exit(0);
}

// --- In the parent ---

Error explain(const Layout& layout, const Failure& failure) {
  const std::string what = "starting " + layout.program;
  if (failure.stage == SpawnStep::folder)
    return os_error("entering the working folder " + layout.folder, failure.error);
  if (failure.stage == SpawnStep::account)
    return os_error(format("{} as {}", what, layout.account->name), failure.error);
  if (failure.stage == SpawnStep::processors)
    return os_error(what + ": binding it to its processors", failure.error);
  if (failure.stage == SpawnStep::program && failure.error == ENOEXEC)
    return Error{Code::invalid, format("{}: not a program of this machine; name its interpreter, "
                                       "as in `python {}`",
                                       what, layout.program)};
  return os_error(what, failure.error);
}

void reap(pid_t pid) {
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) continue;
}

// Returns nothing once the program runs.
Result<void> await_exec(const Layout& layout, const Fd& failures) {
  Failure failure{};
  ssize_t n = 0;
  do n = ::read(failures.get(), &failure, sizeof failure);
  while (n < 0 && errno == EINTR);
  if (n == 0) return {};
  if (n != sizeof failure) return os_error("starting " + layout.program, EIO);
  return explain(layout, failure);
}

}  // namespace

Result<pid_t> spawn(const ProcessSpec& program, ProcessLifetime lifetime) {
  Pipe failures = TRY(make_pipe());
  Layout layout = TRY(prepare_child(program, failures.write.get()));
  const pid_t pid = ::fork();
  if (pid < 0) return os_error("starting " + layout.program + ": fork", errno);
  if (pid == 0) exec_child(layout, lifetime);
  // In parent and child, whichever runs first: the group exists before it is signalled.
  if (lifetime == ProcessLifetime::ends_with_thread) ::setpgid(pid, pid);
  failures.write.reset();
  layout.failure.reset();
  auto running = await_exec(layout, failures.read);
  if (running) return pid;
  reap(pid);
  return std::move(running).error();
}

Result<void> spawn_detached(const ProcessSpec& program) {
  Pipe failures = TRY(make_pipe());
  Layout layout = TRY(prepare_child(program, failures.write.get()));
  const pid_t pid = ::fork();
  if (pid < 0) return os_error("starting " + layout.program + ": fork", errno);
  if (pid == 0) exec_detached(layout);
  failures.write.reset();
  layout.failure.reset();
  reap(pid);
  return await_exec(layout, failures.read);
}

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return os_error("making a pipe", errno);
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

}  // namespace lockstep

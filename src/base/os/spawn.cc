// By hand, because posix_spawn has no parent-death signal. Between fork and exec only
// async-signal-safe calls are allowed (other threads may hold malloc's lock at the moment of the
// fork), so all arguments are prepared before the fork. The child reports a failure over a
// close-on-exec pipe: an end of file without data means that exec succeeded.
#include "base/os/spawn.h"

#include <cerrno>
#include <csignal>
#include <optional>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/files.h"

namespace lockstep {
namespace {

enum class SpawnStep : int { cgroup, container, folder, files, processors, account, fork, program };
struct Failure {
  SpawnStep stage;
  int error;
};

// The paths that execvp would try. In a container this process cannot look them up itself.
std::vector<std::string> paths_in_container(const ProcessSpec& program) {
  const std::string& name = program.command.front();
  if (!program.file.empty()) return {(program.folder / program.file).string()};
  if (name.find('/') != std::string::npos) return {(program.folder / name).string()};
  const std::string folders = search_path(program.environment);
  std::vector<std::string> paths;
  for (std::size_t begin = 0; begin <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', begin), folders.size());
    paths.push_back((program.folder / folders.substr(begin, end - begin) / name).string());
    begin = end + 1;
  }
  return paths;
}

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

bool is_same_file(int one, int other) {
  struct stat a{}, b{};
  return ::fstat(one, &a) == 0 && ::fstat(other, &b) == 0 && a.st_dev == b.st_dev &&
         a.st_ino == b.st_ino;
}

// The child joins these; neither is open if it stays where it is.
struct Namespaces {
  Fd user;  // not open if it is that of this process
  Fd mounts;
};

Result<Namespaces> namespaces_of(pid_t container) {
  Namespaces found;
  if (container == 0) return found;
  const auto open_namespace = [](const std::string& process, std::string_view name) {
    return open_file(format("/proc/{}/ns/{}", process, name), O_RDONLY);
  };
  const std::string process = format("{}", container);
  auto user = open_namespace(process, "user");
  auto mounts = open_namespace(process, "mnt");
  if (!user) return std::move(user).error().with_context("entering the container");
  if (!mounts) return std::move(mounts).error().with_context("entering the container");
  if (!is_same_file(user->get(), TRY(open_namespace("self", "user")).get()))
    found.user = *std::move(user);
  found.mounts = *std::move(mounts);
  return found;
}

// The child's arguments, prepared before the fork.
struct Layout {
  std::vector<std::string> programs;  // the first that can be executed is
  std::string folder;
  std::vector<std::string> command, environment;
  std::vector<char*> argv, envp;
  Fd input, output, errors, failure;
  Namespaces namespaces;
  std::optional<cpu_set_t> processors;
  std::optional<Account> account;
  std::vector<std::string> cgroups;
  pid_t parent = ::getpid();
};

Result<Layout> prepare_child(const ProcessSpec& program, int failure) {
  Layout layout;
  layout.namespaces = TRY(namespaces_of(program.container));
  if (layout.namespaces.mounts)
    layout.programs = paths_in_container(program);
  else
    layout.programs = {TRY(path_of(program)).string()};
  layout.folder = program.folder.string();
  layout.account = program.account;
  for (const std::filesystem::path& file : program.cgroups) layout.cgroups.push_back(file.string());
  layout.command = program.command;
  for (const auto& [name, value] : program.environment)
    layout.environment.push_back(name + "=" + value);
  layout.argv = pointers(layout.command);
  layout.envp = pointers(layout.environment);
  layout.input = TRY(duplicate_above_stdio(
      program.input >= 0 ? program.input : TRY(open_file("/dev/null", O_RDONLY)).get()));
  layout.output = TRY(duplicate_above_stdio(program.output));
  layout.errors = TRY(duplicate_above_stdio(program.errors >= 0 ? program.errors : program.output));
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

// "0" is the process that writes.
void join_cgroups(const Layout& layout) {
  for (const std::string& procs : layout.cgroups) {
    const int file = ::open(procs.c_str(), O_WRONLY | O_CLOEXEC);
    if (file < 0 || ::write(file, "0", 1) != 1) exit_with_failure(layout, SpawnStep::cgroup);
    ::close(file);
  }
}

// The user namespace first: it has the right to join the other.
void join_container(const Layout& layout) {
  const auto& [user, mounts] = layout.namespaces;
  if ((user && ::setns(user.get(), CLONE_NEWUSER) != 0) ||
      (mounts && ::setns(mounts.get(), CLONE_NEWNS) != 0))
    exit_with_failure(layout, SpawnStep::container);
}

[[noreturn]] void exec_program(const Layout& layout) {
  reset_signals();
  if (::dup2(layout.input.get(), 0) < 0 || ::dup2(layout.output.get(), 1) < 0 ||
      ::dup2(layout.errors.get(), 2) < 0)
    exit_with_failure(layout, SpawnStep::files);
  if (layout.processors &&
      ::sched_setaffinity(0, sizeof *layout.processors, &*layout.processors) != 0)
    exit_with_failure(layout, SpawnStep::processors);
  join_cgroups(layout);
  if (layout.account) become(layout);
  if (::chdir(layout.folder.c_str()) != 0) exit_with_failure(layout, SpawnStep::folder);
  ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);  // libraries' files may lack the flag
  int error = ENOENT;                          // of a file that is there, if one is
  for (const std::string& program : layout.programs) {
    ::execve(program.c_str(), layout.argv.data(), layout.envp.data());
    if (errno != ENOENT && errno != ENOTDIR) error = errno;
    if (errno != ENOENT && errno != ENOTDIR && errno != EACCES) break;
  }
  errno = error;
  exit_with_failure(layout, SpawnStep::program);
}

// A change of the user namespace clears the parent-death signal.
[[noreturn]] void exec_child(const Layout& layout, ProcessLifetime lifetime) {
  join_container(layout);
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

std::vector<std::string> folders_of(const std::vector<std::string>& files) {
  std::vector<std::string> folders;
  for (const std::string& file : files)
    folders.push_back(std::filesystem::path(file).parent_path().string());
  return folders;
}

Error explain(const Layout& layout, const Failure& failure) {
  const bool is_in_container = static_cast<bool>(layout.namespaces.mounts);
  const std::string what =
      "starting " + (is_in_container ? layout.command.front() : layout.programs.front());
  if (failure.stage == SpawnStep::container)
    return os_error(what + ": entering the container", failure.error);
  if (failure.stage == SpawnStep::cgroup)
    return os_error(what + ": joining its control group", failure.error);
  if (failure.stage == SpawnStep::folder)
    return os_error("entering the working folder " + layout.folder, failure.error);
  if (failure.stage == SpawnStep::account)
    return os_error(format("{} as {}", what, layout.account->name), failure.error);
  if (failure.stage == SpawnStep::processors)
    return os_error(what + ": binding it to its processors", failure.error);
  if (failure.stage == SpawnStep::program && failure.error == ENOEXEC)
    return Error{Code::invalid, format("{}: not a program of this machine; name its interpreter, "
                                       "as in `python {}`",
                                       what, layout.command.front())};
  if (failure.stage == SpawnStep::program && failure.error == ENOENT && is_in_container)
    return Error{Code::not_found, format("{}: the container has no such program; it was looked for "
                                         "in {}",
                                         what, joined(folders_of(layout.programs), ":"))};
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
  if (n != sizeof failure) return os_error("starting " + layout.command.front(), EIO);
  return explain(layout, failure);
}

}  // namespace

Result<pid_t> spawn(const ProcessSpec& program, ProcessLifetime lifetime) {
  Pipe failures = TRY(make_pipe());
  Layout layout = TRY(prepare_child(program, failures.write.get()));
  const pid_t pid = ::fork();
  if (pid < 0) return os_error("starting " + layout.command.front() + ": fork", errno);
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
  if (pid < 0) return os_error("starting " + layout.command.front() + ": fork", errno);
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

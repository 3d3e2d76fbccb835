#include "apps/command.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

namespace lockstep {
namespace {

constexpr auto kDaemonStart = std::chrono::seconds(15);

// The end of a file, for an error message: its last line that is not blank.
std::string last_line(const std::filesystem::path& path) {
  std::string content = read_file(path).value_or(std::string());
  while (!content.empty() && content.back() == '\n') content.pop_back();
  return content.substr(content.rfind('\n') + 1);
}

// fork, setsid, exec: the daemon must outlive this terminal. Its output goes to the home's log.
Result<pid_t> spawn_detached(const std::vector<std::string>& words, const Home& home) {
  Fd log = TRY(open_file(home.log_file(), O_WRONLY | O_CREAT | O_APPEND));
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = ::fork();
  if (child < 0) return os_error("starting the daemon", errno);
  if (child > 0) return child;
  ::setsid();
  int null = ::open("/dev/null", O_RDONLY);
  ::dup2(null, STDIN_FILENO);
  ::dup2(log.get(), STDOUT_FILENO);
  ::dup2(log.get(), STDERR_FILENO);
  // What the caller has open besides (a lock, a pipe to a script) must not stay open for days.
  ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
  ::execv(arguments[0], arguments.data());
  ::_exit(127);
}

// The daemon's answer, once it gives one; an error when it did not within its time to start.
Result<Client> await_daemon(const Home& home) {
  for (Deadline deadline = Deadline::after(kDaemonStart);; ::usleep(20'000))
    if (auto client = Client::open(home); client || deadline.passed()) return client;
}

}  // namespace

int exit_code_for(const Error& error) {
  switch (error.code) {
    case Code::unavailable:
      return kNoDaemon;
    case Code::timeout:
      return kNoDaemon;
    case Code::cancelled:
      return kCancelled;
    default:
      return kWrongUsage;
  }
}

int exit_code_for(const api::RunView& run) {
  if (run.state == RunState::succeeded) return kDone;
  if (run.state == RunState::timed_out) return kTimedOut;
  if (run.state == RunState::cancelled) return kCancelled;
  return kRunFailed;
}

Result<std::string> own_program() {
  std::error_code failure;
  auto path = std::filesystem::read_symlink("/proc/self/exe", failure);
  if (failure) return Error{Code::internal, "reading /proc/self/exe: " + failure.message()};
  return path.string();
}

bool is_served(const Home& home) {
  auto lock = open_file(home.folder / "lock", O_RDWR);
  return lock && ::flock(lock->get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

Result<Client> start_daemon(const Home& home, const std::vector<std::string>& arguments) {
  TRY(make_folders(home.folder));
  std::vector<std::string> words = {TRY(own_program()), "serve"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  pid_t child = TRY(spawn_detached(words, home));
  for (Deadline deadline = Deadline::after(kDaemonStart); !deadline.passed(); ::usleep(20'000)) {
    auto file = read_daemon_file(home.daemon_file());  // it may be that of another daemon
    if (auto client = Client::open(home); client && file && file->pid == child) return client;
    if (::waitpid(child, nullptr, WNOHANG) == child)
      return Error{Code::invalid, format("the daemon did not start: {} (all of it: {})",
                                         last_line(home.log_file()), home.log_file().string())};
  }
  return Error{Code::timeout, format("the daemon did not answer within {}; see {}",
                                     text(Duration(kDaemonStart)), home.log_file().string())};
}

Result<Client> connect() {
  Home home = TRY(Home::find());
  auto client = Client::open(home);
  if (client || client.error().code != Code::unavailable) return client;
  auto begun = start_daemon(home, {"--again"});
  // Another command started one at the same moment: ours found the folder taken and went.
  if (!begun && is_served(home)) return await_daemon(home);
  Client started = TRY(std::move(begun));
  say(format("started the daemon on this machine ({}, {}); `lockstep serve --stop` ends it",
             started.url(), home.folder.string()));
  return started;
}

Result<RunId> run_argument(const std::string& words) {
  if (!words.empty() && words.find_first_not_of("0123456789") == std::string::npos)
    return parse_run_id("default/" + words);
  return parse_run_id(words);
}

bool is_terminal(int fd) { return ::isatty(fd) == 1; }

int terminal_width() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const char* columns = std::getenv("COLUMNS");
  int width = columns == nullptr ? 0 : std::atoi(columns);
  return width > 0 ? width : 80;
}

// Output that was lost must not end in success; a reader that went away (`| head`) is no error.
void print(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  if (std::fflush(stdout) == 0) return;
  if (errno == EPIPE) std::_Exit(kNobodyReads);
  say("lockstep: " + os_error("writing to standard output", errno).message);
  std::_Exit(kWrongUsage);
}

void say(const std::string& line) { std::fputs((line + "\n").c_str(), stderr); }

}  // namespace lockstep

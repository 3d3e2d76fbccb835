#include "apps/own_daemon.h"

#include <cerrno>
#include <chrono>
#include <filesystem>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/exit_codes.h"
#include "apps/terminal.h"
#include "base/clock.h"
#include "base/environment.h"
#include "base/fd.h"
#include "base/files.h"
#include "base/format.h"
#include "base/spawn.h"

namespace lockstep {
namespace {

constexpr auto kDaemonStart = std::chrono::seconds(15);

// What a program said last in its log, for an error message: the last line that is not blank.
std::string last_words(const std::filesystem::path& path) {
  constexpr std::string_view kOwnName = "lockstep: ";
  std::string content = read_file(path).value_or(std::string());
  while (!content.empty() && content.back() == '\n') content.pop_back();
  std::string line = content.substr(content.rfind('\n') + 1);
  if (line.empty()) return "it could not even write its log; see whether the disk is full";
  return line.starts_with(kOwnName) ? line.substr(kOwnName.size()) : line;
}

// It outlives this terminal, and its output goes to the home's log.
Result<pid_t> spawn_daemon(const std::vector<std::string>& words, const Home& home) {
  Fd log = TRY(open_file(home.log_file(), O_WRONLY | O_CREAT | O_APPEND));
  Program program{.command = words,
                  .environment = own_environment(),
                  .folder = home.folder,
                  .output = log.get()};
  program.environment["LOCKSTEP_HOME"] = home.folder.string();  // it may have been relative
  return spawn(program, Bond::session);
}

// The kind of failure that makes this program end as the daemon did.
Code code_of_end(int status) {
  return WIFEXITED(status) && WEXITSTATUS(status) == kWrongUsage ? Code::invalid : Code::internal;
}

// The daemon's answer, once it gives one; an error when it did not within its time to start.
Result<Client> await_daemon(const Home& home) {
  for (Deadline deadline = Deadline::after(kDaemonStart);; ::usleep(20'000))
    if (auto client = Client::open(home); client || deadline.passed()) return client;
}

}  // namespace

Result<std::string> own_program() {
  std::error_code failure;
  auto path = std::filesystem::read_symlink("/proc/self/exe", failure);
  if (failure) return Error{Code::internal, "reading /proc/self/exe: " + failure.message()};
  return path.string();
}

Result<Home> find_home() {
  Home home = TRY(Home::find());
  std::error_code failure;
  auto status = std::filesystem::status(home.folder, failure);
  bool may_come = status.type() == std::filesystem::file_type::not_found &&
                  failure != std::errc::not_a_directory;
  if (may_come || std::filesystem::is_directory(status)) return home;
  return Error{Code::invalid,
               format("{} cannot be the daemon's folder ({}); choose another by LOCKSTEP_HOME",
                      home.folder.string(), failure ? failure.message() : "it is not a folder")};
}

Result<void> prepare(const Home& home) {
  auto made = make_folders(home.folder);
  if (made && ::access(home.folder.c_str(), W_OK | X_OK) != 0)
    made = os_error("writing to " + home.folder.string(), errno);
  if (made || made.error().code == Code::exhausted) return made;
  return Error{Code::invalid,
               format("{}; choose a folder for the daemon by LOCKSTEP_HOME", made.error().message)};
}

Result<Client> start_daemon(const Home& home, const std::vector<std::string>& arguments) {
  TRY(prepare(home));
  std::vector<std::string> words = {TRY(own_program()), "serve"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  pid_t child = TRY(spawn_daemon(words, home));
  WaitingLine waiting;
  for (Deadline deadline = Deadline::after(kDaemonStart); !deadline.passed(); ::usleep(20'000)) {
    auto file = read_daemon_file(home.daemon_file());  // it may be that of another daemon
    if (auto client = Client::open(home); client && file && file->pid == child) return client;
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) == child)
      return Error{code_of_end(status),
                   format("the daemon did not start: {} (all of it: {})",
                          last_words(home.log_file()), home.log_file().string())};
    waiting.show("waiting for the daemon to answer");
  }
  return Error{Code::timeout, format("the daemon did not answer within {}; see {}",
                                     text(Duration(kDaemonStart)), home.log_file().string())};
}

Result<Client> connect() {
  Home home = TRY(find_home());
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

}  // namespace lockstep

#include "apps/own_daemon.h"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/exit_codes.h"
#include "apps/served.h"
#include "apps/terminal.h"
#include "base/clock.h"
#include "base/environment.h"
#include "base/fd.h"
#include "base/files.h"
#include "base/format.h"
#include "base/spawn.h"
#include "net/url.h"

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
  // It may have been relative.
  if (home.pointer)
    program.environment["XDG_STATE_HOME"] = home.pointer->parent_path().parent_path().string();
  else
    program.environment["LOCKSTEP_HOME"] = home.folder.string();
  return spawn(program, Bond::session);
}

// The kind of failure that makes this program end as the daemon did.
Code code_of_end(int status) {
  return WIFEXITED(status) && WEXITSTATUS(status) == kWrongUsage ? Code::invalid : Code::internal;
}

// While an answer is late, standard error says so.
Result<Client> open_client(const Home& home) {
  const auto waiting = std::make_shared<WaitingLine>(OffTerminal::once);
  return Client::open(home, [waiting](const std::optional<LateAnswer>& late) {
    if (late)
      waiting->show(format("waiting for the daemon at {} to answer", late->url), late->waited);
    else
      waiting->wipe();
  });
}

// The daemon's answer while one holds the folder: it may have just begun, or lost its file, which
// it writes again in a moment. Nothing once none holds it.
Result<std::optional<Client>> await_daemon(const Home& home) {
  WaitingLine waiting;
  for (Deadline deadline = Deadline::after(kDaemonStart); is_served(home); ::usleep(20'000)) {
    auto client = Client::open(home);
    if (client) return std::optional(*std::move(client));
    if (client.error().code == Code::timeout) return std::move(client).error();
    if (deadline.passed()) {
      const auto pid = holder(home);
      return Error{Code::unavailable,
                   format("a daemon{} holds {}, but cannot be reached: {}; see {}, or end it by "
                          "`lockstep serve --stop`",
                          pid ? format(" (process {})", *pid) : "", home.folder.string(),
                          client.error().message, home.log_file().string())};
    }
    waiting.show("waiting for the daemon to answer");
  }
  return std::optional<Client>();
}

// Not in a rank: the daemon would be one of its processes, and end with it.
Result<void> check_no_rank(const Home& home) {
  const char* run = std::getenv("LOCKSTEP_RUN");
  if (run == nullptr) return {};
  return Error{Code::unavailable,
               format("no daemon answers for {}, and a command inside a run ({}) starts none; type "
                      "`lockstep serve --again --detach` outside of it",
                      home.folder.string(), run)};
}

// A daemon that a command starts serves as the last one did, but to this machine alone.
Result<std::vector<std::string>> served_again(const Home& home) {
  const Served last = TRY(served_before(home));
  if (is_loopback(last.listen)) return std::vector<std::string>{"--again"};
  return std::vector<std::string>{"--again", "--listen", Served{}.listen};
}

std::string words_about_start(const Home& home, const Client& started, bool narrower) {
  std::string words =
      format("started the daemon on this machine ({}, {}); `lockstep serve --stop` ends it",
             started.url(), home.folder.string());
  if (narrower)
    words +=
        "; unlike the last one it listens to this machine alone: give `lockstep serve` --listen "
        "to let others in";
  return words;
}

// Where the last daemon was killed, or its file is damaged while none runs.
void clear_damaged(const Home& home, const Error& error) {
  if (error.code != Code::corrupt) return;
  say(format("lockstep: {}; no daemon runs, so it is removed and one is started", error.message));
  ::unlink(home.daemon_file().c_str());
}

// The daemon writes its pointer when it begins, and looks at the shared file system no more, since
// that may hang.
void keep_pointer(const Home& home) {
  if (!home.pointer || read_daemon_file(*home.pointer) || daemon_elsewhere(home)) return;
  const auto file = read_daemon_file(home.daemon_file());
  if (!file || !is_served(home)) return;
  const auto written = write_pointer(home, *file);
  say(format("lockstep: {} was missing or damaged; {}", home.pointer->string(),
             written ? "it is made again" : written.error().message));
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
  if (!may_come && !std::filesystem::is_directory(status))
    return Error{Code::invalid,
                 format("{} cannot be the daemon's folder ({}); choose another by LOCKSTEP_HOME",
                        home.folder.string(), failure ? failure.message() : "it is not a folder")};
  TRY(check_private(home));
  keep_pointer(home);
  return home;
}

Result<void> prepare(const Home& home) {
  if (const auto there = daemon_elsewhere(home)) return runs_elsewhere(home, *there);
  auto made = make_folder(home);
  if (made && ::access(home.folder.c_str(), W_OK | X_OK) != 0)
    made = os_error("writing to " + home.folder.string(), errno);
  if (made || made.error().code == Code::exhausted) return made;
  std::string words = made.error().message;
  if (words.find("LOCKSTEP_HOME") == std::string::npos)
    words += "; choose a folder for the daemon by LOCKSTEP_HOME";
  return Error{Code::invalid, std::move(words)};
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

Result<std::optional<Client>> find_running(const Home& home) {
  auto client = open_client(home);
  if (client) return std::optional(*std::move(client));
  if (client.error().code == Code::timeout) return std::move(client).error();
  if (daemon_elsewhere(home)) return std::move(client).error();
  return await_daemon(home);
}

Result<Client> connect() {
  Home home = TRY(find_home());
  auto client = open_client(home);
  const bool may_start =
      !client && (client.error().code == Code::unavailable || client.error().code == Code::corrupt);
  if (!may_start || daemon_elsewhere(home)) return client;
  if (auto found = TRY(await_daemon(home))) return *std::move(found);
  TRY(check_no_rank(home));
  clear_damaged(home, client.error());
  const auto again = TRY(served_again(home));
  auto begun = start_daemon(home, again);
  // Another command started one at the same moment: ours found the folder taken and went.
  if (!begun && is_served(home))
    if (auto found = TRY(await_daemon(home))) return *std::move(found);
  Client started = TRY(std::move(begun));
  say(words_about_start(home, started, again.size() > 1));
  return started;
}

}  // namespace lockstep

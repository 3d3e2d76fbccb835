#include "apps/daemon/own_daemon.h"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/cli/exit_codes.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/serve_config.h"
#include "base/clock.h"
#include "base/format.h"
#include "base/os/environment.h"
#include "base/os/fd.h"
#include "base/os/files.h"
#include "base/os/spawn.h"
#include "net/http/url.h"
#include "platform/client/chosen_daemon.h"

namespace lockstep::cli {
namespace {

// A daemon that was started before.
constexpr auto kDaemonAnswer = std::chrono::seconds(15);
// An update of its tables may take that long with a large store.
constexpr auto kDaemonStart = std::chrono::minutes(10);

// The last log message of a program, for an error message: the last line that is not blank.
std::string last_log_line(const std::filesystem::path& path) {
  constexpr std::string_view kOwnName = "lockstep: ";
  std::string content = read_file(path).value_or(std::string());
  while (!content.empty() && content.back() == '\n') content.pop_back();
  std::string line = content.substr(content.rfind('\n') + 1);
  if (line.empty()) return "it could not even write its log; see whether the disk is full";
  return line.starts_with(kOwnName) ? line.substr(kOwnName.size()) : line;
}

// The daemon outlives this terminal, and its output goes to the home's log.
Result<pid_t> spawn_daemon(const std::vector<std::string>& words, const host::Home& home) {
  Fd log = TRY(open_file(home.log_file(), O_WRONLY | O_CREAT | O_APPEND));
  ProcessSpec program{.command = words,
                      .environment = own_environment(),
                      .folder = home.folder,
                      .output = log.get()};
  // The path may have been relative.
  if (home.pointer)
    program.environment["XDG_STATE_HOME"] = home.pointer->parent_path().parent_path().string();
  else
    program.environment["LOCKSTEP_HOME"] = home.folder.string();
  return spawn(program, ProcessLifetime::own_session);
}

// The error code with which this program reports the daemon's exit status.
Code exit_error_code(int status) {
  return WIFEXITED(status) && WEXITSTATUS(status) == kWrongUsage ? Code::invalid : Code::internal;
}

// Prints a message to standard error while an answer is late.
client::WhenLate show_waiting() {
  const auto waiting = std::make_shared<WaitingLine>(NonTerminalOutput::once);
  return [waiting](const std::optional<client::LateAnswer>& late) {
    if (late)
      waiting->show(format("waiting for the daemon at {} to answer", late->url), late->waited);
    else
      waiting->wipe();
  };
}

Result<client::Client> open_client(const host::Home& home) {
  return client::Client::open(home, show_waiting());
}

// Waits for the daemon's answer while a process holds the folder: it may have just started, or may
// rewrite its lost file in a moment. Nothing if no process holds it.
Result<std::optional<client::Client>> await_daemon(const host::Home& home) {
  WaitingLine waiting;
  for (Deadline deadline = Deadline::after(kDaemonAnswer); host::is_served(home);
       ::usleep(20'000)) {
    auto client = client::Client::open(home);
    if (client) return std::optional(*std::move(client));
    if (client.error().code == Code::timeout) return std::move(client).error();
    if (deadline.passed()) {
      const auto pid = host::daemon_pid_of(home);
      return Error{Code::unavailable,
                   format("a daemon{} holds {}, but cannot be reached: {}; see {}, or end it by "
                          "`lockstep serve --stop`",
                          pid ? format(" (process {})", *pid) : "", home.folder.string(),
                          client.error().message, home.log_file().string())};
    }
    waiting.show("waiting for the daemon to answer");
  }
  return std::optional<client::Client>();
}

// A rank must not start a daemon: it would be a process of the rank, and end with it.
Result<void> check_outside_rank(const host::Home& home) {
  const char* run = std::getenv("LOCKSTEP_RUN");
  if (run == nullptr) return {};
  return Error{Code::unavailable,
               format("no daemon answers for {}, and a command inside a run ({}) starts none; type "
                      "`lockstep serve --again --detach` outside of it",
                      home.folder.string(), run)};
}

// A daemon that a command starts serves the same cluster as the last one, but listens to this
// machine alone, unless hosts call it.
Result<std::vector<std::string>> restart_arguments(const host::Home& home) {
  const ServeConfig last = TRY(last_serve_config(home));
  // Hosts call it there.
  if (net::is_loopback(last.listen) || hosts_join(last)) return std::vector<std::string>{"--again"};
  return std::vector<std::string>{"--again", "--listen", ServeConfig{}.listen};
}

std::string start_message(const host::Home& home, const client::Client& started, bool narrower) {
  std::string words =
      format("started the daemon on this machine ({}, {}); `lockstep serve --stop` ends it",
             started.url(), home.folder.string());
  if (narrower)
    words +=
        "; unlike the last one it listens to this machine alone: give `lockstep serve` --listen "
        "to let others in";
  return words;
}

// The last daemon was killed, or its file is damaged while none runs.
void remove_damaged_file(const host::Home& home, const Error& error) {
  if (error.code != Code::corrupt) return;
  print_to_stderr(
      format("lockstep: {}; no daemon runs, so it is removed and one is started", error.message));
  ::unlink(home.daemon_file().c_str());
}

// The daemon writes its pointer at its start and does not access the shared file system later,
// since that may hang.
void restore_pointer(const host::Home& home) {
  if (!home.pointer || host::read_daemon_file(*home.pointer) || host::daemon_elsewhere(home))
    return;
  const auto file = host::read_daemon_file(home.daemon_file());
  if (!file || !host::is_served(home)) return;
  const auto written = host::write_pointer(home, *file);
  print_to_stderr(format("lockstep: {} was missing or damaged; {}", home.pointer->string(),
                         written ? "it is made again" : written.error().message));
}

}  // namespace

Result<std::string> own_program() {
  std::error_code failure;
  auto path = std::filesystem::read_symlink("/proc/self/exe", failure);
  if (failure) return Error{Code::internal, "reading /proc/self/exe: " + failure.message()};
  return path.string();
}

Result<host::Home> find_home() {
  host::Home home = TRY(host::Home::find());
  std::error_code failure;
  auto status = std::filesystem::status(home.folder, failure);
  bool may_come = status.type() == std::filesystem::file_type::not_found &&
                  failure != std::errc::not_a_directory;
  if (!may_come && !std::filesystem::is_directory(status))
    return Error{Code::invalid,
                 format("{} cannot be the daemon's folder ({}); choose another by LOCKSTEP_HOME",
                        home.folder.string(), failure ? failure.message() : "it is not a folder")};
  TRY(host::check_private(home));
  restore_pointer(home);
  return home;
}

Result<void> prepare_home(const host::Home& home) {
  if (const auto there = host::daemon_elsewhere(home))
    return host::daemon_elsewhere_error(home, *there);
  auto made = host::make_home_folder(home);
  if (made && ::access(home.folder.c_str(), W_OK | X_OK) != 0)
    made = os_error("writing to " + home.folder.string(), errno);
  if (made || made.error().code == Code::exhausted) return made;
  std::string words = made.error().message;
  if (words.find("LOCKSTEP_HOME") == std::string::npos)
    words += "; choose a folder for the daemon by LOCKSTEP_HOME";
  return Error{Code::invalid, std::move(words)};
}

Result<client::Client> start_daemon(const host::Home& home,
                                    const std::vector<std::string>& arguments) {
  TRY(prepare_home(home));
  std::vector<std::string> words = {TRY(own_program()), "serve"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  pid_t child = TRY(spawn_daemon(words, home));
  WaitingLine waiting;
  const auto late = Deadline::after(kDaemonAnswer);
  for (Deadline deadline = Deadline::after(kDaemonStart); !deadline.passed(); ::usleep(20'000)) {
    auto file = host::read_daemon_file(home.daemon_file());  // may be another daemon's
    if (auto client = client::Client::open(home); client && file && file->pid == child)
      return client;
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) == child)
      return Error{exit_error_code(status),
                   format("the daemon did not start: {} (all of it: {})",
                          last_log_line(home.log_file()), home.log_file().string())};
    waiting.show(late.passed()
                     ? "waiting for the daemon to answer: " + last_log_line(home.log_file())
                     : "waiting for the daemon to answer");
  }
  return Error{Code::timeout, format("the daemon did not answer within {}; see {}",
                                     text(Duration(kDaemonStart)), home.log_file().string())};
}

Result<std::optional<client::Client>> find_running_daemon(const host::Home& home) {
  auto client = open_client(home);
  if (client) return std::optional(*std::move(client));
  if (client.error().code == Code::timeout) return std::move(client).error();
  if (host::daemon_elsewhere(home)) return std::move(client).error();
  return await_daemon(home);
}

Result<bool> is_daemon_remote() {
  return TRY(client::chosen_remote(own_environment())).has_value();
}

Result<std::optional<client::Client>> find_chosen_daemon() {
  if (const auto remote = TRY(client::chosen_remote(own_environment())))
    return std::optional(TRY(client::open_remote(*remote, show_waiting())));
  return find_running_daemon(TRY(find_home()));
}

Result<client::Client> connect_to_daemon() {
  if (const auto remote = TRY(client::chosen_remote(own_environment())))
    return client::open_remote(*remote, show_waiting());
  host::Home home = TRY(find_home());
  auto client = open_client(home);
  const bool may_start =
      !client && (client.error().code == Code::unavailable || client.error().code == Code::corrupt);
  if (!may_start || host::daemon_elsewhere(home)) return client;
  if (auto found = TRY(await_daemon(home))) return *std::move(found);
  TRY(check_outside_rank(home));
  remove_damaged_file(home, client.error());
  const auto again = TRY(restart_arguments(home));
  auto begun = start_daemon(home, again);
  // Another command started a daemon at the same moment: ours found the folder locked and exited.
  if (!begun && host::is_served(home))
    if (auto found = TRY(await_daemon(home))) return *std::move(found);
  client::Client started = TRY(std::move(begun));
  print_to_stderr(start_message(home, started, again.size() > 1));
  return started;
}

}  // namespace lockstep::cli

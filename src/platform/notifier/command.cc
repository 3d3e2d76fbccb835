#include "platform/notifier/command.h"

#include <cerrno>
#include <csignal>
#include <string_view>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/format.h"
#include "base/os/environment.h"
#include "base/os/spawn.h"
#include "platform/core/notice/forms.h"

namespace lockstep::notifier {
namespace {

namespace fs = std::filesystem;

constexpr int kPollMilliseconds = 20;

bool is_plain_name(const std::string& name) {
  return !name.empty() && name.find('/') == std::string::npos && name.front() != '.' &&
         name.find('\0') == std::string::npos;
}

Result<void> check_owner(const fs::path& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return os_error("the command " + path.string(), errno);
  const bool is_of_others = info.st_uid != 0 && info.st_uid != ::geteuid();
  if (!is_of_others && (info.st_mode & 022) == 0) return {};
  return Error{Code::denied, format("{} can be changed by others: give it to root or to the "
                                    "daemon's user, and take the right back with 'chmod go-w {}'",
                                    path.string(), path.string())};
}

// A file in memory, which no program has to read at our pace.
Result<Fd> input_of(const std::string& text) {
  Fd file(::memfd_create("notice", MFD_CLOEXEC));
  if (!file ||
      ::pwrite(file.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
    return os_error("making the input of a command", errno);
  return file;
}

Environment environment_of(const Delivery& delivery) {
  Environment environment;
  for (const auto& [name, value] : own_environment())
    if (is_user_variable(name)) environment.emplace(name, value);
  environment["LOCKSTEP_NOTICE"] = delivery.notice.id;
  return environment;
}

// None at the deadline: then it is killed, with what it has started in its group.
std::optional<int> wait_for(pid_t process, const Deadline& deadline,
                            const std::atomic<bool>& is_stopped) {
  int status = 0;
  while (!deadline.passed() && !is_stopped) {
    const pid_t found = ::waitpid(process, &status, WNOHANG);
    if (found == process) return status;
    if (found < 0 && errno != EINTR) return 0;
    ::poll(nullptr, 0, kPollMilliseconds);
  }
  return std::nullopt;
}

void kill_group(pid_t process) {
  int status = 0;
  ::kill(-process, SIGKILL);
  while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
}

Answer answer_of_status(const std::string& name, int status) {
  if (WIFSIGNALED(status))
    return {.words = format("{} was ended by signal {}", name, WTERMSIG(status))};
  const int code = WEXITSTATUS(status);
  return {.is_delivered = code == 0, .words = format("{} ended with exit code {}", name, code)};
}

}  // namespace

Result<fs::path> find_command(const fs::path& folder, const std::string& name) {
  if (folder.empty())
    return Error{Code::invalid,
                 "this daemon starts no commands: it has no --notice-commands FOLDER"};
  if (!is_plain_name(name))
    return Error{Code::invalid,
                 format("'{}' is no name of a program in {}", name, folder.string())};
  fs::path program = folder / name;
  std::error_code ignored;
  if (!fs::is_regular_file(program, ignored) || !is_program(program))
    return Error{Code::invalid, format("{} has no program {}", folder.string(), name)};
  TRY(check_owner(folder));
  TRY(check_owner(program));
  return program;
}

Answer run_command(const NotifierSetup& setup, const Delivery& delivery,
                   const std::atomic<bool>& is_stopped) {
  const auto program = find_command(setup.commands, delivery.where);
  if (!program) return {.words = program.error().message};
  const auto input = input_of(notice::json_form(delivery.notice) + "\n");
  if (!input) return {.words = input.error().message};
  const Fd nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  const auto process = spawn({.command = {program->string()},
                              .environment = environment_of(delivery),
                              .folder = "/",
                              .input = input->get(),
                              .output = nowhere.get()},
                             ProcessLifetime::ends_with_thread);
  if (!process) return {.words = process.error().message};
  const auto status = wait_for(*process, Deadline::after(setup.command_limit), is_stopped);
  if (status) {
    ::kill(-*process, SIGKILL);  // what it has left in its group
    return answer_of_status(delivery.where, *status);
  }
  kill_group(*process);
  return {.words = is_stopped ? "the daemon ends"
                              : format("{} has not ended within {}, and was killed", delivery.where,
                                       text(setup.command_limit))};
}

}  // namespace lockstep::notifier

#include "platform/agent/shell/shell_service.h"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <pwd.h>
#include <shadow.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/format.h"
#include "base/log.h"
#include "base/os/environment.h"
#include "base/os/files.h"
#include "base/os/spawn.h"
#include "platform/agent/ranks/rank_environment.h"
#include "platform/api/shell_routes.h"
#include "platform/client/client.h"
#include "platform/host/home.h"
#include "platform/host/node_files.h"
#include "platform/host/ssh_keys.h"
#include "text/convert.h"

namespace lockstep::agent {
namespace {

using std::filesystem::path;

constexpr Duration kShellCallLimit = std::chrono::seconds(20);
constexpr Duration kPreparationLimit = std::chrono::seconds(10);
constexpr std::size_t kOrdersMax = 4;
constexpr off_t kSshdLogMax = 1 << 20;
constexpr const char* kSshdVariable = "LOCKSTEP_SSHD";
constexpr const char* kSshdPaths[] = {"/usr/sbin/sshd", "/usr/local/sbin/sshd", "/sbin/sshd",
                                      "/usr/bin/sshd"};

Error no_sshd(const host::LaunchSpec& launch, const std::string& where) {
  return {Code::not_found,
          format("host {} has no sshd ({}): install openssh-server there; it need not run",
                 launch.host, where)};
}

// The variable of the host names one elsewhere.
Result<path> find_sshd(const host::LaunchSpec& launch) {
  if (const char* named = std::getenv(kSshdVariable); named != nullptr && *named != '\0') {
    if (::access(named, X_OK) == 0) return path(named);
    return no_sshd(launch, format("{} is {}", kSshdVariable, named));
  }
  for (const char* usual : kSshdPaths)
    if (::access(usual, X_OK) == 0) return path(usual);
  return no_sshd(launch, "no /usr/sbin/sshd");
}

Result<std::string> unix_user() {
  const passwd* account = ::getpwuid(::getuid());
  if (account == nullptr)
    return Error{Code::not_found,
                 format("the ranks run as the user with the number {}, which has no name on the "
                        "host: sshd refuses it",
                        ::getuid())};
  if (::access(account->pw_shell, X_OK) != 0 && *account->pw_shell != '\0')
    return Error{Code::not_found, format("the login shell {} of {} is missing on the host: sshd "
                                         "refuses the user",
                                         account->pw_shell, account->pw_name)};
  return std::string(account->pw_name);
}

// Only root can read it, and only an sshd of root refuses such an account.
Result<void> check_not_locked(const std::string& user) {
  if (::getuid() != 0) return {};
  const spwd* shadow = ::getspnam(user.c_str());
  if (shadow == nullptr || shadow->sp_pwdp == nullptr || *shadow->sp_pwdp != '!') return {};
  return Error{Code::denied, format("the account {} of the host is locked, and sshd refuses it: "
                                    "`usermod -p '*' {}` leaves it without a password and open "
                                    "for keys",
                                    user, user)};
}

Result<path> own_program() {
  std::error_code failed;
  std::string program = std::filesystem::read_symlink("/proc/self/exe", failed).string();
  if (failed) return os_error("finding the own program", failed.value());
  constexpr std::string_view kReplaced = " (deleted)";  // another version has its place
  if (program.ends_with(kReplaced)) program.resize(program.size() - kReplaced.size());
  return path(program);
}

Result<Fd> open_sshd_log(const path& file) {
  struct stat known{};
  const bool is_full = ::stat(file.c_str(), &known) == 0 && known.st_size > kSshdLogMax;
  return open_file(file, O_WRONLY | O_CREAT | O_APPEND | (is_full ? O_TRUNC : 0));
}

}  // namespace

ShellService::ShellService(const host::LaunchSpec& launch, model::NodeId node, std::string token)
    : launch_(launch),
      node_(std::move(node)),
      token_(std::move(token)),
      files_{path(launch.node_folder) / "shell"},
      preparing_(kOrdersMax) {}

void ShellService::set_session(ShellSession session) {
  const Lock lock(mutex_);
  session_ = std::move(session);
}

void ShellService::handle_order(const std::optional<std::string>& order) {
  if (!order || *order == known_order_) return;
  known_order_ = *order;
  {
    const Lock lock(mutex_);
    ++preparations_;
  }
  if (preparing_.add([this] { prepare(); })) return;
  LS_LOG(warning, "too many orders for shells wait");
  finish_preparation();
}

void ShellService::finish_preparation() {
  const Lock lock(mutex_);
  --preparations_;
  changed_.notify_all();
}

// The daemon answers the client when it answers the agent, which then writes the files.
bool ShellService::await_preparation() {
  const auto limit = Deadline::after(kPreparationLimit);
  Lock lock(mutex_);
  while (preparations_ > 0 && !limit.passed()) changed_.wait_until(mutex_, limit);
  return preparations_ == 0;
}

void ShellService::prepare() {
  api::NodeShell shell;
  const auto key = prepare_key();
  if (key) {
    shell.host_key = *key;
    shell.user = unix_user().value_or("");
  } else {
    shell.error = key.error().message;
    LS_LOG(warning, "no shell can be opened: {}", key.error().message);
  }
  auto signed_keys = call_daemon(shell);
  auto done = signed_keys ? Result<void>() : Result<void>(signed_keys.error());
  if (done && key) {
    const auto program = own_program();
    done = program ? write_sshd_files(files_, *signed_keys, *program) : program.error();
  }
  if (!done) LS_LOG(warning, "preparing shells: {}", done.error().message);
  finish_preparation();
}

// Everything that can be found wrong here, so that the user hears of it before ssh starts.
Result<std::string> ShellService::prepare_key() {
  std::optional<ShellSession> session;
  {
    const Lock lock(mutex_);
    session = session_;
  }
  if (!session) return Error{Code::unavailable, "the ranks of the node have not started yet"};
  TRY(find_sshd(launch_));
  TRY(check_not_locked(TRY(unix_user())));
  TRY(make_sshd_folder());
  TRY(make_folders(files_.folder));
  TRY(write_file(files_.session(), dump_json(to_json(*session))));
  return host::open_ssh_key(files_.host_key());
}

Result<api::NodeShellAnswer> ShellService::call_daemon(const api::NodeShell& shell) const {
  const auto file = TRY(host::read_daemon_file(launch_.daemon_file));
  client::Client client(
      file.url, launch_.token,
      client::TokenOwner{.attempt = model::AttemptName{launch_.generation, node_.attempt}});
  client::Arguments<std::remove_cvref_t<decltype(api::kNodeShell)>> arguments{
      .path = node_, .query = {}, .request = shell};
  if (!launch_.generation.empty()) arguments.query.generation = launch_.generation;
  return client.call(api::kNodeShell, arguments, Deadline::after(kShellCallLimit));
}

Result<Fd> ShellService::start() {
  if (!await_preparation())
    return Error{Code::timeout, "the node still prepares for shells: try again"};
  const path sshd = TRY(find_sshd(launch_));
  if (::access(files_.config().c_str(), R_OK) != 0)
    return Error{Code::unavailable, "the node is not prepared for shells: use `lockstep ssh`"};
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return os_error("making a pair of sockets", errno);
  Fd own(ends[0]);
  const Fd served(ends[1]);
  const Fd log = TRY(open_sshd_log(files_.log()));
  Environment environment = base_environment();
  environment[std::string(host::kNodeToken)] = token_;
  TRY(spawn({.command = {sshd.string(), "-i", "-e", "-f", files_.config().string()},
             .environment = std::move(environment),
             .folder = "/",
             .input = served.get(),
             .output = served.get(),
             .errors = log.get()},
            ProcessLifetime::ends_with_thread));
  return own;
}

}  // namespace lockstep::agent

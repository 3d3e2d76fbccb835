#include "apps/shell/ssh_access.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <system_error>

#include <unistd.h>

#include "apps/daemon/own_daemon.h"
#include "base/format.h"
#include "base/os/environment.h"
#include "base/os/files.h"
#include "platform/api/shell_routes.h"
#include "platform/client/chosen_daemon.h"
#include "platform/host/ssh_keys.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr Duration kAccessLimit = std::chrono::seconds(20);
// Their certificates have ended.
constexpr auto kKeptFor = std::chrono::hours(48);

Result<fs::path> ssh_folder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return fs::path(value == nullptr ? "" : value);
  };
  if (const auto config = variable("XDG_CONFIG_HOME"); !config.empty())
    return fs::absolute(config / "lockstep/ssh");
  if (const auto home = variable("HOME"); !home.empty())
    return fs::absolute(home / ".config/lockstep/ssh");
  return Error{Code::invalid,
               "neither XDG_CONFIG_HOME nor HOME is set, so keys of ssh have no "
               "folder"};
}

// A file in a configuration of ssh, where % begins a variable.
std::string file_text(const fs::path& file) {
  std::string text = "\"";
  for (const char each : file.string()) text += each == '%' ? "%%" : std::string(1, each);
  return text + "\"";
}

std::string escaped(const std::string& command) {
  std::string text;
  for (const char each : command) text += each == '%' ? "%%" : std::string(1, each);
  return text;
}

std::string proxy_command(const std::string& program, const ShellTarget& target) {
  std::vector<std::string> command = {program};
  if (!target.profile.empty()) command.insert(command.end(), {"--profile", target.profile});
  command.insert(command.end(),
                 {"stream", format("{}/{}", text(target.run), target.node), "--to", "shell"});
  return escaped(shell_quoted(command));
}

struct HostFiles {
  fs::path config, certificate, known_hosts;
};

HostFiles host_files(const fs::path& folder, const std::string& alias) {
  return {.config = folder / (alias + ".conf"),
          .certificate = folder / (alias + "-cert.pub"),
          .known_hosts = folder / (alias + ".known_hosts")};
}

std::string config_text(const std::string& alias, const api::ShellAccess& access,
                        const HostFiles& files, const fs::path& key, const std::string& proxy) {
  return format(
      "Host {}\n"
      "  User {}\n"
      "  HostKeyAlias {}\n"
      "  ProxyCommand {}\n"
      "  IdentityFile {}\n"
      "  CertificateFile {}\n"
      "  UserKnownHostsFile {}\n"
      "  GlobalKnownHostsFile none\n"
      "  IdentitiesOnly yes\n"
      "  PreferredAuthentications publickey\n"
      "  StrictHostKeyChecking yes\n"
      "  UpdateHostKeys no\n"
      "  SendEnv LANG LC_*\n",
      alias, access.user, access.host_name, proxy, file_text(key), file_text(files.certificate),
      file_text(files.known_hosts));
}

void remove_old_files(const fs::path& folder) {
  std::error_code failed;
  const auto ended = fs::file_time_type::clock::now() - kKeptFor;
  for (const fs::path& file : list_folder(folder).value_or(std::vector<fs::path>()))
    if (const auto written = fs::last_write_time(file, failed); !failed && written < ended)
      fs::remove(file, failed);
}

Result<client::Client> client_of(const ShellTarget& target) {
  if (target.profile.empty()) return connect_to_daemon();
  Environment environment = own_environment();
  environment["LOCKSTEP_PROFILE"] = target.profile;
  return client::open_chosen(environment);
}

}  // namespace

Result<fs::path> ssh_hosts_folder() { return TRY(ssh_folder()) / "hosts"; }

namespace {

Result<SshAccess> prepare_files(client::Client& client, const ShellTarget& target,
                                const std::string& alias) {
  const fs::path key = TRY(ssh_folder()) / "id_ed25519";
  const std::string public_key = TRY(host::open_ssh_key(key));
  const auto path = client::Path::of(
      {target.run.project, format("{}", target.run.number), format("{}", target.node)});
  const auto access =
      TRY(client.call(api::kShell, {.path = path, .request = {.public_key = public_key}},
                      Deadline::after(kAccessLimit)));
  const fs::path folder = TRY(ssh_hosts_folder());
  TRY(make_folders(folder));
  remove_old_files(folder);
  const HostFiles files = host_files(folder, alias);
  const std::string proxy = proxy_command(TRY(own_program()), target);
  TRY(write_file(files.certificate, access.certificate + "\n"));
  TRY(write_file(files.known_hosts, format("@cert-authority * {}\n", access.host_authority)));
  TRY(write_file(files.config, config_text(alias, access, files, key, proxy)));
  return SshAccess{.config = files.config, .alias = alias};
}

}  // namespace

Result<SshAccess> prepare_ssh(client::Client& client, const ShellTarget& target) {
  return prepare_files(client, target, ssh_alias(target));
}

Result<SshAccess> prepare_ssh_alias(const std::string& alias) {
  const ShellTarget target = TRY(parse_ssh_alias(alias));
  client::Client client = TRY(client_of(target));
  return prepare_files(client, target, alias);
}

Result<SshAccess> prepare_ssh(const ShellTarget& target) {
  client::Client client = TRY(client_of(target));
  return prepare_ssh(client, target);
}

std::string shell_quoted(const std::string& word) {
  if (!word.empty() &&
      word.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                             "%+,-./:=@_") == std::string::npos)
    return word;
  std::string text = "'";
  for (const char each : word) text += each == '\'' ? "'\\''" : std::string(1, each);
  return text + "'";
}

std::string shell_quoted(const std::vector<std::string>& words) {
  std::vector<std::string> quoted;
  for (const std::string& word : words) quoted.push_back(shell_quoted(word));
  return joined(quoted, " ");
}

std::vector<std::string> ssh_command(const std::string& program, const SshAccess& access,
                                     const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {program, "-F", access.config.string()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

Error execute(const std::vector<std::string>& command) {
  std::vector<std::string> words = command;
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::signal(SIGPIPE, SIG_DFL);  // ignored by this program, and so by what it executes
  ::execvp(arguments[0], arguments.data());
  if (errno == ENOENT)
    return {Code::not_found, format("this machine has no {}: install OpenSSH's client "
                                    "(openssh-client)",
                                    command.front())};
  return os_error("starting " + command.front(), errno);
}

}  // namespace lockstep::cli

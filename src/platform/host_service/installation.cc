#include "platform/host_service/installation.h"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <system_error>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/format.h"
#include "base/os/environment.h"
#include "base/os/file_lock.h"
#include "base/os/files.h"
#include "base/os/run_program.h"
#include "base/os/spawn.h"

namespace lockstep::host_service {
namespace {

namespace fs = std::filesystem;

constexpr auto kUnit = "lockstep-host.service";
constexpr auto kCommandLimit = std::chrono::seconds(60);
constexpr auto kEndLimit = std::chrono::seconds(20);
constexpr auto kLookInterval = std::chrono::milliseconds(50);

// `LOCKSTEP_HOME` and the program are quoted words of systemd, in which % is special.
constexpr auto kUnitText = R"([Unit]
Description=Lockstep host service: reports this machine, starts and ends agents
{}# It tries again for as long as the daemon or the network is away.
StartLimitIntervalSec=0

[Service]
EnvironmentFile=-{}
Environment={}
ExecStart={} host serve
# Agents and ranks go on while the service restarts; it may give each a control group of its own.
KillMode=process
Delegate=yes
# A rank that runs out of memory is no reason to end the service.
OOMPolicy=continue
Restart=always
RestartSec=2
{}
[Install]
WantedBy={}
)";
constexpr auto kAfterNetwork =
    "After=network-online.target time-sync.target\n"
    "Wants=network-online.target\n";
constexpr auto kLimits =
    "# Ranks inherit these bounds.\n"
    "LimitNOFILE=1048576\n"
    "LimitMEMLOCK=infinity\n"
    "TasksMax=infinity\n";

std::string quoted(const std::string& word) {
  std::string text = "\"";
  for (const char c : word) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
    if (c == '%') text += '%';
  }
  return text + "\"";
}

// As getpwuid has it, since a service's HOME is that one.
std::string home_of_user() {
  const passwd* const user = ::getpwuid(::geteuid());
  return user == nullptr ? "/" : user->pw_dir;
}

std::string name_of_user() {
  const passwd* const user = ::getpwuid(::geteuid());
  return user == nullptr ? format("{}", ::geteuid()) : user->pw_name;
}

// A login by SSH sets it if the machine has systemd's PAM module.
std::string runtime_folder() { return format("/run/user/{}", ::geteuid()); }

// The link that an upgrade changes, and not the folder of one version.
Result<std::string> lasting_program() {
  std::error_code failed;
  const fs::path own = fs::read_symlink("/proc/self/exe", failed);
  if (failed) return os_error("finding the path of this program", failed.value());
  for (const fs::path& link :
       {fs::path("/usr/local/bin/lockstep"), fs::path(home_of_user()) / ".local/bin/lockstep"})
    if (fs::equivalent(link, own, failed)) return link.string();
  return own.string();
}

Result<void> run(const std::vector<std::string>& command) {
  const ProgramEnd end = TRY(run_program(command, kCommandLimit));
  if (end.status == 0) return {};
  return Error{Code::internal,
               format("{}: {}", joined(command, " "),
                      end.output.empty() ? format("ended with {}", end.status) : end.output)};
}

std::vector<std::string> systemctl(ServiceManager manager, std::vector<std::string> words) {
  std::vector<std::string> command = {"systemctl", "--quiet"};
  if (manager == ServiceManager::user)
    command = {"env", "XDG_RUNTIME_DIR=" + runtime_folder(), "systemctl", "--user", "--quiet"};
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

// Without it a user's units end at logout. Some machines leave it to root.
bool lingers() {
  std::error_code failed;
  const fs::path mark = fs::path("/var/lib/systemd/linger") / name_of_user();
  if (fs::exists(mark, failed)) return true;
  const auto enabled = run({"loginctl", "--no-ask-password", "enable-linger", name_of_user()});
  return enabled && fs::exists(mark, failed);
}

bool await_manager_of_user() {
  const fs::path socket = fs::path(runtime_folder()) / "systemd/private";
  const Deadline deadline = Deadline::after(std::chrono::seconds(5));
  std::error_code failed;
  while (!fs::exists(socket, failed) && !deadline.passed())
    std::this_thread::sleep_for(kLookInterval);
  return fs::exists(socket, failed);
}

Result<void> write_unit(const Installation& installation) {
  const fs::path path = unit_path(installation.manager);
  if (installation.manager == ServiceManager::user) TRY(make_folders(path.parent_path()));
  return write_file(path, unit_text(installation), 0644);
}

Result<void> end_process(const ServiceHome& service) {
  const Deadline deadline = Deadline::after(kEndLimit);
  while (is_locked(service.lock_file())) {
    if (deadline.passed())
      return Error{Code::timeout, format("the host service that holds {} does not end",
                                         service.lock_file().string())};
    if (const auto owner = lock_owner(service.lock_file())) ::kill(*owner, SIGTERM);
    std::this_thread::sleep_for(kLookInterval);
  }
  return {};
}

bool is_active(ServiceManager manager) {
  return static_cast<bool>(run(systemctl(manager, {"is-active", kUnit})));
}

Result<std::string> install_unit(const Installation& installation, const ServiceHome& service) {
  const ServiceManager manager = installation.manager;
  if (!is_active(manager)) TRY(end_process(service));  // one that was started by hand
  TRY(write_unit(installation));
  TRY(run(systemctl(manager, {"daemon-reload"})));
  TRY(run(systemctl(manager, {"enable", kUnit})));
  TRY(run(systemctl(manager, {"restart", kUnit})));
  return std::string();
}

Result<std::string> start_detached(const Installation& installation, const ServiceHome& service) {
  TRY(end_process(service));
  const fs::path log = service.folder / "service.log";
  const Fd output = TRY(open_file(log, O_WRONLY | O_CREAT | O_APPEND));
  Environment environment = own_environment();
  environment["LOCKSTEP_HOME"] = installation.home.string();
  TRY(spawn_detached({.command = {installation.program, "host", "serve"},
                      .environment = std::move(environment),
                      .folder = "/",
                      .output = output.get()}));
  return format(
      "{0} has no units of systemd here that outlive a login, so the service does not "
      "start with the machine: let root run `loginctl enable-linger {0}`, then run `{1} "
      "host serve --install` again; its log is {2}",
      name_of_user(), installation.program, log.string());
}

}  // namespace

Result<Installation> plan_installation(const fs::path& home) {
  Installation plan{.program = TRY(lasting_program()), .home = home};
  std::error_code failed;
  const bool has_systemd = fs::is_directory("/run/systemd/system", failed);
  if (::geteuid() == 0) {
    if (!has_systemd)
      return Error{Code::unavailable,
                   "this machine has no systemd: let its own service manager "
                   "run `lockstep host serve` as root"};
    plan.manager = ServiceManager::system;
  } else if (has_systemd && lingers() && await_manager_of_user()) {
    plan.manager = ServiceManager::user;
  }
  return plan;
}

Result<Installation> find_installation(const fs::path& home) {
  Installation found{.program = TRY(lasting_program()), .home = home};
  std::error_code failed;
  for (const ServiceManager manager : {ServiceManager::system, ServiceManager::user})
    if ((manager == ServiceManager::system) == (::geteuid() == 0) &&
        fs::exists(unit_path(manager), failed))
      found.manager = manager;
  return found;
}

fs::path unit_path(ServiceManager manager) {
  if (manager == ServiceManager::system) return fs::path("/etc/systemd/system") / kUnit;
  return fs::path(home_of_user()) / ".config/systemd/user" / kUnit;
}

std::string unit_text(const Installation& installation) {
  const bool system = installation.manager == ServiceManager::system;
  return format(kUnitText, system ? kAfterNetwork : "",
                system ? "/etc/lockstep/host.env" : "%h/.config/lockstep/host.env",
                quoted("LOCKSTEP_HOME=" + installation.home.string()), quoted(installation.program),
                system ? kLimits : "", system ? "multi-user.target" : "default.target");
}

Result<std::string> install(const Installation& installation, const ServiceHome& service) {
  TRY(service.read_membership());
  if (installation.manager == ServiceManager::detached)
    return start_detached(installation, service);
  return install_unit(installation, service);
}

Result<void> uninstall(const Installation& installation, const ServiceHome& service) {
  std::error_code failed;
  if (installation.manager != ServiceManager::detached) {
    TRY(run(systemctl(installation.manager, {"disable", "--now", kUnit})));
    fs::remove(unit_path(installation.manager), failed);
    TRY(run(systemctl(installation.manager, {"daemon-reload"})));
  }
  TRY(end_process(service));
  fs::remove(service.membership_file(), failed);
  return {};
}

}  // namespace lockstep::host_service

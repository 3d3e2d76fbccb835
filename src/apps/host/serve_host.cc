#include <cstdlib>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include <grp.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/cli/exit_codes.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/host/host_actions.h"
#include "apps/run/origin.h"
#include "base/log.h"
#include "base/os/environment.h"
#include "base/os/file_limit.h"
#include "platform/engine/local/local_engine.h"
#include "platform/host_service/allowed_users.h"
#include "platform/host_service/installation.h"
#include "platform/host_service/service.h"
#include "platform/host_service/service_home.h"

namespace lockstep::cli {
namespace {

// Not root's own home, in which it may have a daemon.
constexpr auto kHomeOfRoot = "/var/lib/lockstep-host";

// They are blocked in all threads, and waited for.
sigset_t end_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

bool ends_within(const sigset_t& set, Duration wait) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(wait);
  const timespec limit{seconds.count(), std::chrono::nanoseconds(wait - seconds).count()};
  return ::sigtimedwait(&set, nullptr, &limit) > 0;
}

// As root: only accounts that this host's own file allows, which may pass through the folder to
// their own files. Else all runs as this user.
engine::AccountOf account_policy(const std::filesystem::path& folder) {
  if (::geteuid() != 0) return {};
  ::chmod(folder.parent_path().c_str(), 0711);
  ::setgroups(0, nullptr);  // so that work as the owner of a file has no group of root
  return [](const host::LaunchSpec& launch) -> Result<std::optional<Account>> {
    return std::optional(TRY(host_service::allowed_account(launch.user, host_service::kUsersFile)));
  };
}

host_service::InventorySources service_sources(const std::filesystem::path& folder) {
  auto sources = own_inventory_sources(folder);
  if (::geteuid() != 0) return sources;
  std::set<std::string> accounts;
  if (const auto users = host_service::allowed_users(host_service::kUsersFile))
    for (const auto& [user, account] : *users) accounts.insert(account);
  sources.users.assign(accounts.begin(), accounts.end());
  return sources;
}

Result<int> change_installation(const OwnService& own, const HostFlags& flags) {
  if (flags.uninstall) {
    TRY(host_service::uninstall(TRY(host_service::find_installation(own.home)), own.service));
    print("the host service has ended and starts no more; agents go on to the end of their runs");
    return kDone;
  }
  const auto plan = TRY(host_service::plan_installation(own.home));
  const std::string warning = TRY(host_service::install(plan, own.service));
  print(warning.empty() ? "the host service runs, and starts with the machine"
                        : format("the host service runs; {}", warning));
  return kDone;
}

}  // namespace

Result<OwnService> own_service() {
  const auto variables = own_environment();
  if (::geteuid() == 0 && !variables.contains("LOCKSTEP_HOME"))
    return OwnService{kHomeOfRoot, {std::filesystem::path(kHomeOfRoot) / "host"}};
  const host::Home home = TRY(find_home());
  return OwnService{home.folder, host_service::ServiceHome::below(home)};
}

// Ends without waiting for its calls: the daemon repeats its orders to the next service.
Result<int> serve_host(const HostFlags& flags) {
  if (!flags.hosts.empty())
    return Error{Code::invalid, "host serve: it serves this machine: leave out the host"};
  const OwnService own = TRY(own_service());
  if (flags.install || flags.uninstall) return change_installation(own, flags);
  set_log_name("host");
  if (auto raised = raise_file_limit(); !raised) LS_LOG(warning, "{}", raised.error().message);
  const host_service::ServiceHome& home = own.service;
  const host_service::Membership membership = TRY(home.read_membership());
  const Fd lock = TRY(home.lock());
  const sigset_t ending = end_signals();
  ::pthread_sigmask(SIG_BLOCK, &ending, nullptr);
  const auto nodes = TRY(engine::LocalEngine::open(TRY(engine::AgentProgram::own()), home.folder,
                                                   account_policy(home.folder)));
  const SystemClock clock;
  const auto service =
      TRY(host_service::HostService::open({.nodes = *nodes,
                                           .clock = clock,
                                           .membership = membership,
                                           .home = home.folder,
                                           .sources = service_sources(home.folder)}));
  LS_LOG(info, "host {} serves {}; its files are in {}", membership.host,
         host::without_fingerprint(membership.url), home.folder.string());
  std::thread([&] { service->follow_orders(); }).detach();
  std::thread([&] { service->clean_up(); }).detach();
  std::thread([&] { service->send_files(); }).detach();
  while (!ends_within(ending, service->watch())) {
  }
  LS_LOG(info, "stopped; agents and ranks go on");
  ::_exit(kDone);
}

}  // namespace lockstep::cli

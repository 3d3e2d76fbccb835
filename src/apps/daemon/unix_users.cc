#include "apps/daemon/unix_users.h"

#include <filesystem>
#include <optional>

#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/format.h"
#include "platform/host_service/allowed_users.h"

namespace lockstep::cli {
namespace {

constexpr auto kRoot = "root";

bool has_table() { return ::access(host_service::kUsersFile, F_OK) == 0; }

Result<std::optional<Account>> account_by_table(const host::LaunchSpec& launch) {
  return std::optional(TRY(host_service::allowed_account(launch.user, host_service::kUsersFile)));
}

}  // namespace

bool has_unix_users() { return ::geteuid() == 0 && has_table(); }

// Work with the rights of a file's owner must not have a group of root.
engine::AccountOf local_accounts() {
  if (!has_unix_users()) return {};
  ::setgroups(0, nullptr);
  return account_by_table;
}

engine::AccountOf slurm_accounts() {
  if (::geteuid() != 0) return {};
  return [](const host::LaunchSpec& launch) -> Result<std::optional<Account>> {
    if (launch.user == kRoot && !has_table()) return std::optional<Account>();
    return account_by_table(launch);
  };
}

Result<void> check_users_reach(const host::Home& home) {
  if (!has_unix_users()) return {};
  std::filesystem::path folder = home.folder.parent_path();
  for (; folder != folder.parent_path(); folder = folder.parent_path()) {
    struct stat info{};
    if (::stat(folder.c_str(), &info) == 0 && (info.st_mode & S_IXOTH) == 0)
      return Error{Code::invalid,
                   format("{} gives ranks to other users, and they cannot pass through {} to the "
                          "daemon's folder {}: serve with LOCKSTEP_HOME=/var/lib/lockstep",
                          host_service::kUsersFile, folder.string(), home.folder.string())};
  }
  return {};
}

}  // namespace lockstep::cli

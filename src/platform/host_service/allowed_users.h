// The accounts as which a host service that runs as root starts agents and ranks: those that a file
// of this host names, whatever the daemon says.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/os/account.h"
#include "base/result.h"

namespace lockstep::host_service {

inline constexpr auto kUsersFile = "/etc/lockstep/users";

// The names in the file: one a line; '#' begins a comment. Code::denied if others than root may
// write to it. Code::not_found without such a file.
Result<std::vector<std::string>> allowed_users(const std::filesystem::path& file);
// Errors: the file does not have the user; it has no account; its id is below 1000.
Result<Account> allowed_account(const std::string& user, const std::filesystem::path& file);

}  // namespace lockstep::host_service

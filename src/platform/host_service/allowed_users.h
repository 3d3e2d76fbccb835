// The accounts as which a daemon or host service of root starts agents and ranks: those that a file
// of this machine gives to the users of the daemon, whatever the daemon says.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "base/os/account.h"
#include "base/result.h"

namespace lockstep::host_service {

inline constexpr auto kUsersFile = "/etc/lockstep/users";

// The account of each user of the daemon. A line is "USER", which has the account of its name, or
// "USER ACCOUNT"; '#' begins a comment. Code::denied if others than root may write to the file.
// Code::not_found without such a file. Code::invalid: another line, or a user that has two.
Result<std::map<std::string, std::string>> allowed_users(const std::filesystem::path& file);
// Code::denied: the file does not have the user, or the account's id is below 1000.
// Code::not_found: this machine has no such account.
Result<Account> allowed_account(const std::string& user, const std::filesystem::path& file);

}  // namespace lockstep::host_service

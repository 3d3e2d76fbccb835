#include "platform/host_service/allowed_users.h"

#include <cerrno>
#include <sstream>

#include <sys/stat.h>
#include <unistd.h>

#include "base/format.h"
#include "base/os/files.h"

namespace lockstep::host_service {
namespace {

constexpr uid_t kFirstUser = 1000;
constexpr std::size_t kUsersFileMax = 1 << 20;

}  // namespace

Result<std::map<std::string, std::string>> allowed_users(const std::filesystem::path& file) {
  const std::string content = TRY(read_file(file, kUsersFileMax));
  struct stat info{};
  if (::stat(file.c_str(), &info) != 0) return os_error("reading " + file.string(), errno);
  if (info.st_uid != ::geteuid() || (info.st_mode & 022) != 0)
    return Error{Code::denied, format("others may write to {}: `chown root {} && chmod 644 {}`",
                                      file.string(), file.string(), file.string())};
  std::map<std::string, std::string> accounts;
  std::istringstream lines(content);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    std::string user, account, more;
    if (!(words >> user)) continue;
    words >> account >> more;
    if (!more.empty() || accounts.contains(user))
      return Error{Code::invalid,
                   format("{}:{}: {}", file.string(), number,
                          more.empty() ? format("'{}' has a line above: leave one of them", user)
                                       : "a line is USER or USER ACCOUNT")};
    accounts[user] = account.empty() ? user : account;
  }
  return accounts;
}

// The id is checked first: a line in the file would not help a user who has a low one.
Result<Account> allowed_account(const std::string& user, const std::filesystem::path& file) {
  const auto accounts = allowed_users(file);
  if (!accounts && accounts.error().code != Code::not_found) return accounts.error();
  const auto found =
      accounts ? accounts->find(user) : std::map<std::string, std::string>::const_iterator();
  const bool is_allowed = accounts && found != accounts->end();
  auto account = find_account(is_allowed ? found->second : user);
  if (account && account->user < kFirstUser)
    return Error{Code::denied,
                 format("this host starts no ranks as '{}', whose user id {} is below {}: submit "
                        "the run as another user, or give '{}' another account in {}",
                        account->name, account->user, kFirstUser, user, file.string())};
  if (!is_allowed)
    return Error{Code::denied,
                 format("this host starts no ranks of '{}': if it should, add a line '{}' to {} "
                        "there, or '{} ACCOUNT' for an account of another name",
                        user, user, file.string(), user)};
  return account;
}

}  // namespace lockstep::host_service

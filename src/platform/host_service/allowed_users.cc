#include "platform/host_service/allowed_users.h"

#include <algorithm>
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

Result<std::vector<std::string>> allowed_users(const std::filesystem::path& file) {
  const std::string content = TRY(read_file(file, kUsersFileMax));
  struct stat info{};
  if (::stat(file.c_str(), &info) != 0) return os_error("reading " + file.string(), errno);
  if (info.st_uid != ::geteuid() || (info.st_mode & 022) != 0)
    return Error{Code::denied, format("others may write to {}: `chown root {} && chmod 644 {}`",
                                      file.string(), file.string(), file.string())};
  std::vector<std::string> users;
  std::istringstream lines(content);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    for (std::string word; words >> word;) users.push_back(word);
  }
  return users;
}

// The id is checked first: a line in the file would not help a user who has a low one.
Result<Account> allowed_account(const std::string& user, const std::filesystem::path& file) {
  const auto users = allowed_users(file);
  if (!users && users.error().code != Code::not_found) return users.error();
  auto account = find_account(user);
  if (account && account->user < kFirstUser)
    return Error{Code::denied,
                 format("this host starts no ranks as '{}', whose user id {} is below {}: submit "
                        "the run as another user",
                        user, account->user, kFirstUser)};
  if (!users || std::ranges::find(*users, user) == users->end())
    return Error{Code::denied,
                 format("this host starts no ranks as '{}': if it should, add a line '{}' to {} "
                        "there",
                        user, user, file.string())};
  return account;
}

}  // namespace lockstep::host_service

#include "base/os/account.h"

#include <cerrno>
#include <utility>

#include <grp.h>
#include <pwd.h>
#include <sys/fsuid.h>

#include "base/format.h"
#include "base/os/files.h"

namespace lockstep {

Result<Account> find_account(const std::string& name) {
  passwd entry{};
  passwd* found = nullptr;
  std::vector<char> buffer(1 << 14);
  int error = 0;
  while ((error = ::getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found)) ==
         ERANGE)
    buffer.resize(buffer.size() * 2);
  if (found == nullptr && error != 0) return os_error("looking up the account " + name, error);
  if (found == nullptr)
    return Error{Code::not_found, format("this machine has no account '{}'", name)};
  Account account{.name = name,
                  .user = entry.pw_uid,
                  .group = entry.pw_gid,
                  .groups = {},
                  .home = entry.pw_dir,
                  .shell = entry.pw_shell};
  int count = 64;
  do account.groups.resize(static_cast<std::size_t>(count));
  while (::getgrouplist(name.c_str(), account.group, account.groups.data(), &count) < 0 &&
         std::cmp_greater(count, account.groups.size()));
  account.groups.resize(static_cast<std::size_t>(count));
  return account;
}

// Their result is the value before.
FileAccessAs::FileAccessAs(uid_t user, gid_t group)
    : user_before_(0), group_before_(static_cast<gid_t>(::setfsgid(group))) {
  user_before_ = static_cast<uid_t>(::setfsuid(user));
}

FileAccessAs::~FileAccessAs() {
  ::setfsuid(user_before_);
  ::setfsgid(group_before_);
}

}  // namespace lockstep

// Accounts of this machine, and work in their name.
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

#include "base/result.h"

namespace lockstep {

struct Account {
  std::string name;
  uid_t user = 0;
  gid_t group = 0;
  std::vector<gid_t> groups;  // all, the first one included
  std::string home, shell;
};

// Code::not_found: there is none of that name.
Result<Account> find_account(const std::string& name);

// While it exists, this thread has no more rights to files than that user. It has no effect unless
// the process runs as root.
class FileAccessAs {
 public:
  FileAccessAs(uid_t user, gid_t group);
  ~FileAccessAs();
  FileAccessAs(const FileAccessAs&) = delete;
  FileAccessAs& operator=(const FileAccessAs&) = delete;

 private:
  uid_t user_before_;
  gid_t group_before_;
};

}  // namespace lockstep

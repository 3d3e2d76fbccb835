// LoginThrottle: how long a user name and an address wait after failed log-ins. Pure: times are
// arguments, on a clock that does not jump.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "base/units.h"

namespace lockstep::identity {

// One list of names, such as user names, with the failures of each.
class FailureCounts {
 public:
  // Until the name may try again; 0: now.
  Duration wait_of(const std::string& name, Duration now) const;
  // Forgets names whose last failure is old; if there are too many, the oldest one.
  void add(const std::string& name, Duration now);
  void clear(const std::string& name) { counts_.erase(name); }
  std::size_t size() const { return counts_.size(); }

 private:
  struct Count {
    int failures = 0;  // in a row
    Duration last{};
  };
  std::map<std::string, Count> counts_;
};

class LoginThrottle {
 public:
  // How long this log-in has to wait; 0: it may begin, and counts as a failure of the user until
  // succeeded() is called. `address`: from which another machine calls; empty: this machine calls,
  // which has no limit of its own.
  Duration begin(const std::string& user, const std::string& address, Duration now);
  // The same for log-ins that name no user, such as by a token.
  Duration wait_of_address(const std::string& address, Duration now) const {
    return addresses_.wait_of(address, now);
  }
  void fail(const std::string& address, Duration now);
  void succeed(const std::string& user, const std::string& address);

 private:
  FailureCounts users_, addresses_;
};

}  // namespace lockstep::identity

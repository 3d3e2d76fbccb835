// PasswordLogin: log-ins by a password, and changes of passwords. Their hashes are computed on a
// thread of its own, one at a time.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "platform/api/login_routes.h"
#include "platform/identity/password/login_throttle.h"
#include "platform/server/login/loop_tasks.h"
#include "platform/server/people/accounts.h"
#include "platform/server/route_call.h"

namespace lockstep::server {

Error too_many_failures(Duration wait);

class PasswordLogin {
 public:
  // All outlive this.
  PasswordLogin(net::Loop& loop, Accounts& accounts, identity::LoginThrottle& throttle,
                const Clock& clock);

  // An error is returned, or passed to `then` later.
  using LoggedIn = std::function<void(const Result<api::LoginAnswer>& login)>;
  Result<void> log_in(const api::LoginRequest& request, const Principal& caller,
                      const LoggedIn& then);
  Result<void> change(const RouteCall<api::kPassword>& call,
                      const Reply<api::PasswordAnswer>& reply);
  Result<void> set_first(const RouteCall<api::kFirstPassword>& call,
                         const Reply<api::FirstPassword>& reply);

 private:
  // A password that is to be compared, and one that may replace it.
  struct Attempt {
    std::string user, address;
    std::string known_text;  // of the user's row; empty: no user, or no password
    std::string password;
    std::optional<std::string> new_password{};
  };
  struct Checked {
    bool is_right = false;
    std::optional<Result<std::string>> new_hash{};
  };
  static Checked check(const Attempt& attempt);
  Attempt attempt_of(const std::string& user, const std::string& address,
                     std::string password) const;
  Result<void> begin(const Attempt& attempt);
  // The user, if the password was right and is still the same.
  Result<const identity::User*> finish(const Attempt& attempt, const Checked& checked);

  Result<api::LoginAnswer> logged_in(const Principal& caller, const Attempt& attempt,
                                     const Checked& checked);
  Result<api::PasswordAnswer> changed(const RouteCall<api::kPassword>& call, const Attempt& attempt,
                                      const Checked& checked);

  const identity::Directory& directory() const { return accounts_.directory(); }
  Duration now() const;

  Accounts& accounts_;
  const Clock& clock_;
  identity::LoginThrottle& throttle_;
  LoopTasks tasks_;  // the last member: its work uses the others
};

}  // namespace lockstep::server

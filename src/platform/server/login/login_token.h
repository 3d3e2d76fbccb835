// The tokens that log-ins make.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"
#include "platform/api/login_messages.h"
#include "platform/identity/changes.h"

namespace lockstep::server {

inline constexpr std::string_view kPasswordLogin = "log-in by password";
inline constexpr std::string_view kOidcLogin = "log-in by OIDC";

struct LoginToken {
  identity::Changes changes;
  api::LoginAnswer answer;
};

// A token of 30 days. If the user has 100 of this name, the oldest one ends.
Result<LoginToken> make_login_token(const identity::Directory& directory, const std::string& user,
                                    std::string_view name, Time now);

// The ends of the user's tokens of log-ins by password, but this one.
identity::Changes end_password_logins(const identity::Directory& directory, const std::string& user,
                                      std::string_view kept_token);

}  // namespace lockstep::server

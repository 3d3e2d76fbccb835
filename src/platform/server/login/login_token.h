// The tokens that log-ins make.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"
#include "platform/api/login_messages.h"
#include "platform/identity/changes.h"
#include "platform/server/people/accounts.h"
#include "platform/server/principal.h"

namespace lockstep::server {

inline constexpr std::string_view kPasswordLogin = "log-in by password";
inline constexpr std::string_view kOidcLogin = "log-in by OIDC";
// By another token, or by the code of `lockstep open`.
inline constexpr std::string_view kPageLogin = "log-in to the page";

struct LoginToken {
  identity::Changes changes;
  api::LoginAnswer answer;
};

// A token of 30 days, that does not end after `ends_max` and ends with the token `parent`. If the
// user has 100 of this name, the oldest one ends.
Result<LoginToken> make_login_token(const identity::Directory& directory, const std::string& user,
                                    std::string_view name, Time now,
                                    std::optional<Time> ends_max = std::nullopt,
                                    std::string parent = {});

// True if a log-in has made it, so that a log-out revokes it.
bool is_of_login(const identity::Token& token);

// The value of Set-Cookie for the session of this token; without an end it lasts 30 days.
std::string session_cookie(std::string_view cookie, std::string_view token,
                           std::optional<Time> ends, Time now, bool is_https);
// The value that removes it.
std::string no_session_cookie(std::string_view cookie, bool is_https);

// Revokes the token of the session that the caller's browser had until now, if a log-in made it:
// the browser forgets it when it gets a new cookie.
void end_replaced_session(Accounts& accounts, const Principal& caller, Time now);

// The ends of the user's tokens of log-ins by password, but this one.
identity::Changes end_password_logins(const identity::Directory& directory, const std::string& user,
                                      std::string_view kept_token);

}  // namespace lockstep::server

// Messages about log-ins and passwords; see messages.h.
#pragma once

#include <optional>
#include <string>

#include "base/units.h"
#include "text/record.h"

namespace lockstep::api {

struct LoginRequest {
  std::string user{};
  std::string password{};
  std::optional<std::string> new_password{};

  static constexpr auto fields() {
    return record<LoginRequest>(
        required(field("user", &LoginRequest::user, "the user's name")),
        required(field("password", &LoginRequest::password, "its password")),
        field("new_password", &LoginRequest::new_password,
              "replaces it; needed if it is for one log-in"));
  }
};

struct LoginAnswer {
  std::string user{};
  std::string token{};
  std::optional<Time> ends{};
  bool needs_new_password = false;

  static constexpr auto fields() {
    return record<LoginAnswer>(
        field("user", &LoginAnswer::user, "the user's name"),
        field("token", &LoginAnswer::token,
              "a token with all rights of the user; empty: a new password is needed"),
        field("ends", &LoginAnswer::ends, "when the token ends"),
        field("needs_new_password", &LoginAnswer::needs_new_password,
              "the password is for one log-in: repeat the call with a new one"));
  }
};

struct LoginOptions {
  bool password = true;
  bool oidc = false;
  std::string oidc_issuer{};

  static constexpr auto fields() {
    return record<LoginOptions>(
        field("password", &LoginOptions::password, "a user can log in by its password"),
        field("oidc", &LoginOptions::oidc, "a user can log in at an issuer of OIDC"),
        field("oidc_issuer", &LoginOptions::oidc_issuer, "the address of that issuer"));
  }
};

// One way of the three: a token, a user with its password, or a code.
struct SessionRequest {
  std::optional<std::string> token{};
  std::optional<std::string> user{};
  std::optional<std::string> password{};
  std::optional<std::string> new_password{};
  std::optional<std::string> code{};

  static constexpr auto fields() {
    return record<SessionRequest>(
        field("token", &SessionRequest::token, "a token of the user"),
        field("user", &SessionRequest::user, "the user's name, with its password"),
        field("password", &SessionRequest::password, "the user's password"),
        field("new_password", &SessionRequest::new_password,
              "replaces it; needed if it is for one log-in"),
        field("code", &SessionRequest::code, "the code that a command has got for the page"));
  }
};

struct SessionAnswer {
  std::string user{};
  std::optional<Time> ends{};
  bool needs_new_password = false;

  static constexpr auto fields() {
    return record<SessionAnswer>(
        field("user", &SessionAnswer::user, "the user's name"),
        field("ends", &SessionAnswer::ends, "when the session ends"),
        field("needs_new_password", &SessionAnswer::needs_new_password,
              "there is no session yet: the password is for one log-in, repeat the call with a new "
              "one"));
  }
};

struct SessionCode {
  std::string code;
  int expires_seconds = 0;

  static constexpr auto fields() {
    return record<SessionCode>(
        field("code", &SessionCode::code, "begins one session; a secret"),
        field("expires_seconds", &SessionCode::expires_seconds, "until the code ends"));
  }
};

struct DeviceLogin {
  std::string login;
  std::string user_code;
  std::string verification_uri;
  std::optional<std::string> verification_uri_complete;
  int expires_seconds = 0;
  int interval_seconds = 0;

  static constexpr auto fields() {
    return record<DeviceLogin>(
        field("login", &DeviceLogin::login, "names this log-in; a secret"),
        field("user_code", &DeviceLogin::user_code, "that the user types at the issuer"),
        field("verification_uri", &DeviceLogin::verification_uri, "where it types it"),
        field("verification_uri_complete", &DeviceLogin::verification_uri_complete,
              "the same address with the code"),
        field("expires_seconds", &DeviceLogin::expires_seconds, "until the code ends"),
        field("interval_seconds", &DeviceLogin::interval_seconds, "between two polls"));
  }
};

struct DevicePollRequest {
  std::string login;

  static constexpr auto fields() {
    return record<DevicePollRequest>(
        required(field("login", &DevicePollRequest::login, "of the answer that began it")));
  }
};

struct DevicePollAnswer {
  bool pending = true;
  int interval_seconds = 0;
  std::optional<LoginAnswer> login{};

  static constexpr auto fields() {
    return record<DevicePollAnswer>(
        field("pending", &DevicePollAnswer::pending, "the user has not agreed yet: ask again"),
        field("interval_seconds", &DevicePollAnswer::interval_seconds, "until then"),
        field("login", &DevicePollAnswer::login, "the result"));
  }
};

struct LogoutAnswer {
  std::string user;

  static constexpr auto fields() {
    return record<LogoutAnswer>(
        field("user", &LogoutAnswer::user, "the user whose token was revoked"));
  }
};

struct PasswordRequest {
  std::optional<std::string> old_password;
  std::string new_password;

  static constexpr auto fields() {
    return record<PasswordRequest>(
        field("old_password", &PasswordRequest::old_password,
              "the caller's; absent: it has none, which only an admin may change"),
        required(field("new_password", &PasswordRequest::new_password, "8 to 1024 bytes")));
  }
};

struct PasswordAnswer {
  std::string user;
  int ended_tokens = 0;

  static constexpr auto fields() {
    return record<PasswordAnswer>(
        field("user", &PasswordAnswer::user, "the user whose password it is"),
        field("ended_tokens", &PasswordAnswer::ended_tokens,
              "how many tokens of other log-ins by password ended"));
  }
};

struct FirstPasswordRequest {
  std::optional<std::string> password;

  static constexpr auto fields() {
    return record<FirstPasswordRequest>(field("password", &FirstPasswordRequest::password,
                                              "8 to 1024 bytes; absent: a random one"));
  }
};

struct FirstPassword {
  std::string user;
  std::string password;

  static constexpr auto fields() {
    return record<FirstPassword>(
        field("user", &FirstPassword::user, "the user's name"),
        field("password", &FirstPassword::password,
              "the random one, which the daemon does not know afterwards; empty: it was given"));
  }
};

struct LinkRequest {
  std::string subject;

  static constexpr auto fields() {
    return record<LinkRequest>(field("subject", &LinkRequest::subject,
                                     "the `sub` of the user at the issuer; empty: none any more"));
  }
};

}  // namespace lockstep::api

// SessionLogin: log-ins to the page. The page's cookie has a token of the user; its rights, its end
// and its check are those of any other token.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "platform/api/login_routes.h"
#include "platform/host/keys.h"
#include "platform/identity/oidc/begun_logins.h"
#include "platform/server/login/password_login.h"
#include "platform/server/people/accounts.h"
#include "platform/server/principal.h"
#include "platform/server/route_call.h"

namespace lockstep::server {

class SessionLogin {
 public:
  // All outlive this.
  SessionLogin(PasswordLogin& passwords, identity::LoginThrottle& throttle, Accounts& accounts,
               const host::Keys& keys, const Clock& clock, bool is_https)
      : passwords_(passwords),
        throttle_(throttle),
        accounts_(accounts),
        keys_(keys),
        clock_(clock),
        is_https_(is_https) {}

  Result<void> begin(const RouteCall<api::kSession>& call, const Reply<api::SessionAnswer>& reply);
  // For a command, which passes the code to a browser. A token would stay in its history.
  Result<api::SessionCode> make_code(const RouteCall<api::kSessionCode>& call);
  Result<void> end(const RouteCall<api::kEndSession>& call, const Reply<api::LogoutAnswer>& reply);

 private:
  // The token of a session.
  struct Session {
    std::string user, token;
    std::optional<Time> ends{};
  };
  Result<Session> by_token(const std::string& token, const Principal& caller);
  Result<Session> by_code(const std::string& code, const Principal& caller);
  // With a new token, which has all rights of the user.
  Result<Session> new_session(const identity::Bearer& bearer, std::string_view way,
                              const Principal& caller);
  void send(const Session& session, const Principal& caller,
            const Reply<api::SessionAnswer>& reply);
  Result<void> check_wait(const Principal& caller) const;
  Error refuse(std::string_view what, const Principal& caller);

  PasswordLogin& passwords_;
  identity::LoginThrottle& throttle_;
  Accounts& accounts_;
  const host::Keys& keys_;
  const Clock& clock_;
  const bool is_https_;
  identity::BegunLogins<identity::Bearer> codes_;
};

}  // namespace lockstep::server

// LoginCalls: the handlers of the routes about log-ins and passwords.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "platform/server/login/browser_login.h"
#include "platform/server/login/oidc_login.h"
#include "platform/server/login/password_login.h"
#include "platform/server/login/session_login.h"

namespace lockstep::server {

class LoginCalls {
 public:
  // All outlive this. No setup: there is no issuer of OIDC.
  LoginCalls(net::Loop& loop, const std::optional<OidcSetup>& oidc, bool is_https,
             Accounts& accounts, const host::Keys& keys, const model::State& state,
             const Clock& clock);

  Result<api::LoginOptions> options(const RouteCall<api::kLoginOptions>& call) const;
  Result<void> login(const RouteCall<api::kLogin>& call, const Reply<api::LoginAnswer>& reply) {
    return passwords_.log_in(call.request, call.caller,
                             [reply](const auto& login) { reply.send(login); });
  }
  Result<void> change_password(const RouteCall<api::kPassword>& call,
                               const Reply<api::PasswordAnswer>& reply) {
    return passwords_.change(call, reply);
  }
  Result<void> set_first_password(const RouteCall<api::kFirstPassword>& call,
                                  const Reply<api::FirstPassword>& reply) {
    return passwords_.set_first(call, reply);
  }
  Result<void> start_device(const RouteCall<api::kDeviceLogin>& call,
                            const Reply<api::DeviceLogin>& reply);
  Result<void> poll_device(const RouteCall<api::kDevicePoll>& call,
                           const Reply<api::DevicePollAnswer>& reply);
  Result<api::UserView> link_user(const RouteCall<api::kLinkUser>& call);
  Result<api::LogoutAnswer> logout(const RouteCall<api::kLogout>& call);

  BrowserLogin& browser() { return browser_; }
  SessionLogin& sessions() { return sessions_; }

 private:
  Accounts& accounts_;
  const Clock& clock_;
  const std::string issuer_;               // empty: there is none
  const std::unique_ptr<OidcLogin> oidc_;  // null without an issuer
  identity::LoginThrottle throttle_;       // of all ways to log in
  PasswordLogin passwords_;
  SessionLogin sessions_;
  BrowserLogin browser_;
};

}  // namespace lockstep::server

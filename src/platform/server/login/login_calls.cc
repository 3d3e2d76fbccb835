#include "platform/server/login/login_calls.h"

#include "base/format.h"
#include "platform/identity/changes.h"
#include "platform/server/people/gate.h"
#include "platform/server/people/people_views.h"

namespace lockstep::server {
namespace {

Error no_issuer() {
  return {Code::invalid,
          "this daemon has no issuer of OIDC; log in by a password with --user NAME, or have the "
          "daemon started with --oidc-issuer"};
}

}  // namespace

LoginCalls::LoginCalls(net::Loop& loop, const std::optional<OidcSetup>& oidc, bool is_https,
                       Accounts& accounts, const host::Keys& keys, const model::State& state,
                       const Clock& clock)
    : accounts_(accounts),
      clock_(clock),
      issuer_(oidc ? oidc->issuer.url : ""),
      oidc_(oidc ? std::make_unique<OidcLogin>(loop, *oidc, accounts, state, clock) : nullptr),
      passwords_(loop, accounts, throttle_, clock),
      sessions_(passwords_, throttle_, accounts, keys, clock, is_https),
      browser_(oidc_.get(), is_https, accounts, clock) {}

Result<api::LoginOptions> LoginCalls::options(const RouteCall<api::kLoginOptions>&) const {
  return api::LoginOptions{.oidc = oidc_ != nullptr, .oidc_issuer = issuer_};
}

Result<void> LoginCalls::start_device(const RouteCall<api::kDeviceLogin>& call,
                                      const Reply<api::DeviceLogin>& reply) {
  return oidc_ ? oidc_->start_device(call, reply) : no_issuer();
}

Result<void> LoginCalls::poll_device(const RouteCall<api::kDevicePoll>& call,
                                     const Reply<api::DevicePollAnswer>& reply) {
  return oidc_ ? oidc_->poll_device(call, reply) : no_issuer();
}

Result<api::UserView> LoginCalls::link_user(const RouteCall<api::kLinkUser>& call) {
  const std::string& name = call.path_parameters.front();
  const std::string& subject = call.request.subject;
  if (issuer_.empty() && !subject.empty()) return no_issuer();
  const std::string linked = subject.empty() ? "" : format("{} {}", issuer_, subject);
  const auto& directory = accounts_.directory();
  model::AuditRecord record = record_of(call.caller, api::kLinkUser, clock_.now());
  record.target = name;
  record.before = TRY(identity::require_user(directory, name))->oidc_subject;
  record.after = linked;
  TRY(accounts_.change(TRY(identity::set_oidc_subject(directory, name, linked)), record));
  return user_view(directory, directory.users.at(name));
}

Result<api::LogoutAnswer> LoginCalls::logout(const RouteCall<api::kLogout>& call) {
  const std::string& token = call.caller.bearer.token;
  if (token.empty())
    return Error{Code::invalid,
                 "the token in the daemon's folder is no log-in; to replace it, remove the file "
                 "`token` there and restart the daemon"};
  model::AuditRecord record = record_of(call.caller, api::kLogout, clock_.now());
  record.target = call.caller.name;
  TRY(accounts_.change(TRY(identity::revoke_token(accounts_.directory(), token)), record));
  return api::LogoutAnswer{.user = call.caller.name};
}

}  // namespace lockstep::server

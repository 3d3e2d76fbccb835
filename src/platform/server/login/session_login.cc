#include "platform/server/login/session_login.h"

#include <chrono>
#include <utility>

#include "base/format.h"
#include "base/steady_clock.h"
#include "net/crypto.h"
#include "platform/identity/changes.h"
#include "platform/server/login/cookies.h"
#include "platform/server/login/login_token.h"
#include "platform/server/people/gate.h"

namespace lockstep::server {
namespace {

constexpr auto kSessionCodeLife = std::chrono::minutes(5);
constexpr int kCodeBytes = 32;

Duration boot_time() { return MonotonicClock().since_boot(); }

// Exactly one way, with all that it needs.
Result<void> check_way(const api::SessionRequest& request) {
  const int ways = int{request.token.has_value()} + int{request.user.has_value()} +
                   int{request.code.has_value()};
  if (ways != 1)
    return Error{Code::invalid, "a log-in to the page needs one of token, user and code"};
  if (request.user.has_value() == request.password.has_value() &&
      (request.user || !request.new_password))
    return {};
  return Error{Code::invalid, "user and password belong together"};
}

// The row of the token by which the bearer calls; null: it is the one in the daemon's folder.
const identity::Token* row_of(const identity::Directory& directory,
                              const identity::Bearer& bearer) {
  const auto found = directory.tokens.find(bearer.token);
  return found == directory.tokens.end() ? nullptr : &found->second;
}

}  // namespace

Result<void> SessionLogin::begin(const RouteCall<api::kSession>& call,
                                 const Reply<api::SessionAnswer>& reply) {
  const api::SessionRequest& request = call.request;
  TRY(check_way(request));
  if (request.user) {
    const api::LoginRequest login{
        .user = *request.user, .password = *request.password, .new_password = request.new_password};
    return passwords_.log_in(
        login, call.caller, [this, reply, caller = call.caller](const auto& made) {
          if (!made) return reply.send(made.error());
          if (made->needs_new_password)
            return reply.send(api::SessionAnswer{.user = made->user, .needs_new_password = true});
          send({.user = made->user, .token = made->token, .ends = made->ends}, caller, reply);
        });
  }
  TRY(check_wait(call.caller));
  send(TRY(request.token ? by_token(*request.token, call.caller)
                         : by_code(*request.code, call.caller)),
       call.caller, reply);
  return {};
}

// A token that may make others gets one of its own, which a log-out revokes. One with bounds
// cannot, and becomes the session's.
Result<SessionLogin::Session> SessionLogin::by_token(const std::string& token,
                                                     const Principal& caller) {
  const identity::Directory& directory = accounts_.directory();
  const auto bearer = user_of({.keys = keys_, .directory = directory, .now = clock_.now()}, token);
  if (!bearer)
    return refuse("the token is wrong, has ended or was revoked, or its user is disabled", caller);
  if (identity::may(directory, *bearer, identity::Action::manage_self))
    return new_session(*bearer, "by a token, to the page", caller);
  const identity::Token* row = row_of(directory, *bearer);
  return Session{.user = bearer->user, .token = token, .ends = row ? row->ends : std::nullopt};
}

// It ends with the call, whatever comes of it.
Result<SessionLogin::Session> SessionLogin::by_code(const std::string& code,
                                                    const Principal& caller) {
  const identity::Bearer* found = codes_.find(code, boot_time());
  if (found == nullptr)
    return refuse("the code was used already or has ended; `lockstep open` makes another one",
                  caller);
  const identity::Bearer bearer = *found;
  codes_.erase(code);
  // Since then the token may have been revoked, or its user disabled.
  const bool has_token = bearer.token.empty() || row_of(accounts_.directory(), bearer) != nullptr;
  if (!has_token || !identity::may(accounts_.directory(), bearer, identity::Action::manage_self))
    return refuse("the token that got the code was revoked", caller);
  return new_session(bearer, "by a command, to the page", caller);
}

Result<SessionLogin::Session> SessionLogin::new_session(const identity::Bearer& bearer,
                                                        std::string_view way,
                                                        const Principal& caller) {
  const identity::Directory& directory = accounts_.directory();
  const identity::Token* row = row_of(directory, bearer);
  LoginToken made = TRY(make_login_token(directory, bearer.user, kPageLogin, clock_.now(),
                                         row ? row->ends : std::nullopt, bearer.token));
  TRY(accounts_.change(made.changes, {.time = clock_.now(),
                                      .user = bearer.user,
                                      .token = bearer.token,
                                      .address = caller.address,
                                      .action = "user.login",
                                      .target = bearer.user,
                                      .after = std::string(way)}));
  return Session{.user = bearer.user, .token = made.answer.token, .ends = made.answer.ends};
}

void SessionLogin::send(const Session& session, const Principal& caller,
                        const Reply<api::SessionAnswer>& reply) {
  const Time now = clock_.now();
  if (session.token != caller.session.token) end_replaced_session(accounts_, caller, now);
  reply.send({.user = session.user, .ends = session.ends},
             {{"Set-Cookie",
               session_cookie(caller.session.name, session.token, session.ends, now, is_https_)}});
}

Result<void> SessionLogin::check_wait(const Principal& caller) const {
  const Duration wait = throttle_.wait_of_address(caller.address, boot_time());
  if (wait <= Duration(0)) return {};
  return too_many_failures(wait);
}

Error SessionLogin::refuse(std::string_view what, const Principal& caller) {
  throttle_.fail(caller.address, boot_time());
  return {Code::denied, std::string(what)};
}

Result<api::SessionCode> SessionLogin::make_code(const RouteCall<api::kSessionCode>& call) {
  const std::string code = net::random_hex(kCodeBytes);
  const Duration now = boot_time();
  codes_.add(code, call.caller.bearer, now + kSessionCodeLife, now);
  return api::SessionCode{
      .code = code,
      .expires_seconds = static_cast<int>(std::chrono::seconds(kSessionCodeLife).count())};
}

Result<void> SessionLogin::end(const RouteCall<api::kEndSession>& call,
                               const Reply<api::LogoutAnswer>& reply) {
  const identity::Directory& directory = accounts_.directory();
  const identity::Token* row = row_of(directory, call.caller.bearer);
  if (row != nullptr && is_of_login(*row)) {
    model::AuditRecord record = record_of(call.caller, api::kEndSession, clock_.now());
    record.target = call.caller.name;
    TRY(accounts_.change(TRY(identity::revoke_token(directory, std::string(row->id))), record));
  }
  reply.send({.user = call.caller.name},
             {{"Set-Cookie", no_session_cookie(call.caller.session.name, is_https_)}});
  return {};
}

}  // namespace lockstep::server

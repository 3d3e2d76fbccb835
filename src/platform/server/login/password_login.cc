#include "platform/server/login/password_login.h"

#include <iterator>
#include <utility>

#include "base/format.h"
#include "base/steady_clock.h"
#include "platform/crypto/password_hash.h"
#include "platform/identity/changes.h"
#include "platform/identity/password/stored_password.h"
#include "platform/server/login/login_token.h"
#include "platform/server/people/gate.h"

namespace lockstep::server {
namespace {

using identity::Changes;
using identity::StoredPassword;

constexpr std::size_t kHashesWaitingMax = 16;

Error too_many_logins() {
  return {Code::unavailable, "too many log-ins at a time; try again in a few seconds"};
}

Error wrong_password() { return {Code::denied, "the user name or the password is wrong"}; }

// Longer ones were never set.
Result<void> check_length(const std::string& password) {
  if (password.size() <= crypto::kPasswordMax) return {};
  return Error{Code::invalid, format("a password has at most {} bytes, got {}",
                                     crypto::kPasswordMax, password.size())};
}

Result<void> check_new(const std::string& password, const std::string& old_password) {
  TRY(crypto::check_password(password));
  if (password != old_password) return {};
  return Error{Code::invalid, "the new password is the old one; choose another"};
}

void append(Changes& changes, Changes more) {
  changes.insert(changes.end(), std::make_move_iterator(more.begin()),
                 std::make_move_iterator(more.end()));
}

}  // namespace

Error too_many_failures(Duration wait) {
  return {Code::denied, format("there were too many failed log-ins; try again in {}",
                               text(Duration(std::chrono::ceil<std::chrono::seconds>(wait))))};
}

PasswordLogin::PasswordLogin(net::Loop& loop, Accounts& accounts, identity::LoginThrottle& throttle,
                             const Clock& clock)
    : accounts_(accounts), clock_(clock), throttle_(throttle), tasks_(loop, kHashesWaitingMax) {}

Duration PasswordLogin::now() const { return MonotonicClock().since_boot(); }

PasswordLogin::Attempt PasswordLogin::attempt_of(const std::string& user,
                                                 const std::string& address,
                                                 std::string password) const {
  const identity::User* row = identity::find_user(directory(), user);
  const bool can_log_in = row != nullptr && !row->disabled;
  return {.user = user,
          .address = address,
          .known_text = can_log_in ? row->password_hash : "",
          .password = std::move(password)};
}

Result<void> PasswordLogin::begin(const Attempt& attempt) {
  const Duration wait = throttle_.begin(attempt.user, attempt.address, now());
  if (wait <= Duration(0)) return {};
  return too_many_failures(wait);
}

// On the thread. A user without a password costs as much.
PasswordLogin::Checked PasswordLogin::check(const Attempt& attempt) {
  Checked checked;
  const auto stored = StoredPassword::parse(attempt.known_text);
  if (stored.hash.empty())
    crypto::spend_check(attempt.password);
  else
    checked.is_right = crypto::is_password(stored.hash, attempt.password);
  if (checked.is_right && attempt.new_password)
    checked.new_hash = crypto::hash_password(*attempt.new_password);
  return checked;
}

Result<const identity::User*> PasswordLogin::finish(const Attempt& attempt,
                                                    const Checked& checked) {
  const identity::User* user = identity::find_user(directory(), attempt.user);
  const bool is_same =
      user != nullptr && !user->disabled && user->password_hash == attempt.known_text;
  if (checked.is_right && is_same) {
    throttle_.succeed(attempt.user, attempt.address);
    return user;
  }
  throttle_.fail(attempt.address, now());
  if (user != nullptr)
    accounts_.record_refusal({.time = clock_.now(),
                              .user = attempt.user,
                              .address = attempt.address,
                              .action = "user.login",
                              .target = attempt.user,
                              .after = "by password"});
  return wrong_password();
}

Result<void> PasswordLogin::log_in(const api::LoginRequest& request, const Principal& caller,
                                   const LoggedIn& then) {
  TRY(identity::check_identity_name("user", request.user));
  TRY(check_length(request.password));
  if (request.new_password) TRY(check_new(*request.new_password, request.password));
  Attempt attempt = attempt_of(request.user, caller.address, request.password);
  attempt.new_password = request.new_password;
  TRY(begin(attempt));
  const bool runs = tasks_.run([this, caller, attempt, then]() -> LoopTasks::Continuation {
    return [this, caller, attempt, then, checked = check(attempt)] {
      then(logged_in(caller, attempt, checked));
    };
  });
  return runs ? Result<void>() : too_many_logins();
}

Result<api::LoginAnswer> PasswordLogin::logged_in(const Principal& caller, const Attempt& attempt,
                                                  const Checked& checked) {
  const identity::User& user = *TRY(finish(attempt, checked));
  if (StoredPassword::parse(user.password_hash).is_first && !checked.new_hash)
    return api::LoginAnswer{.user = user.name, .needs_new_password = true};
  LoginToken made = TRY(make_login_token(directory(), user.name, kPasswordLogin, clock_.now()));
  if (checked.new_hash)
    append(made.changes,
           TRY(identity::set_password_hash(directory(), user.name, TRY(*checked.new_hash))));
  model::AuditRecord record = record_of(caller, api::kLogin, clock_.now());
  record.user = user.name;
  record.action = "user.login";
  record.target = user.name;
  record.after = checked.new_hash ? "by password, which was changed" : "by password";
  TRY(accounts_.change(made.changes, record));
  return std::move(made.answer);
}

Result<void> PasswordLogin::change(const RouteCall<api::kPassword>& call,
                                   const Reply<api::PasswordAnswer>& reply) {
  const api::PasswordRequest& request = call.request;
  const std::string old_password = request.old_password.value_or("");
  TRY(check_length(old_password));
  TRY(check_new(request.new_password, old_password));
  Attempt attempt = attempt_of(call.caller.name, call.caller.address, old_password);
  attempt.new_password = request.new_password;
  const bool has_none = attempt.known_text.empty();
  if (has_none && !identity::is_admin(directory(), call.caller.bearer))
    return Error{Code::invalid,
                 format("{} has no password; an administrator gives the first one by `lockstep "
                        "user passwd {}`",
                        attempt.user, attempt.user)};
  if (!has_none) TRY(begin(attempt));
  const bool runs = tasks_.run([this, call, attempt, has_none, reply]() -> LoopTasks::Continuation {
    const Checked checked =
        has_none ? Checked{true, crypto::hash_password(*attempt.new_password)} : check(attempt);
    return [this, call, attempt, reply, checked] { reply.send(changed(call, attempt, checked)); };
  });
  return runs ? Result<void>() : too_many_logins();
}

Result<api::PasswordAnswer> PasswordLogin::changed(const RouteCall<api::kPassword>& call,
                                                   const Attempt& attempt, const Checked& checked) {
  const identity::User& user = *TRY(finish(attempt, checked));
  Changes changes =
      TRY(identity::set_password_hash(directory(), user.name, TRY(*checked.new_hash)));
  Changes ended = end_password_logins(directory(), user.name, call.caller.bearer.token);
  const auto count = static_cast<int>(ended.size());
  append(changes, std::move(ended));
  model::AuditRecord record = record_of(call.caller, api::kPassword, clock_.now());
  record.target = user.name;
  record.after = format("changed; {} tokens ended", count);
  TRY(accounts_.change(changes, record));
  return api::PasswordAnswer{.user = attempt.user, .ended_tokens = count};
}

Result<void> PasswordLogin::set_first(const RouteCall<api::kFirstPassword>& call,
                                      const Reply<api::FirstPassword>& reply) {
  const std::string& name = call.path_parameters.front();
  TRY(identity::set_password_hash(directory(), name, ""));
  const bool is_random = !call.request.password;
  const std::string password = call.request.password.value_or(crypto::random_password());
  TRY(crypto::check_password(password));
  const auto store = [this, call, name](const std::string& hash) -> Result<void> {
    Changes changes = TRY(identity::set_password_hash(
        directory(), name, StoredPassword{.hash = hash, .is_first = true}.text()));
    append(changes, end_password_logins(directory(), name, ""));
    model::AuditRecord record = record_of(call.caller, api::kFirstPassword, clock_.now());
    record.target = name;
    record.after = "for one log-in";
    return accounts_.change(changes, record);
  };
  const bool runs =
      tasks_.run([password, is_random, name, reply, store]() -> LoopTasks::Continuation {
        return [reply, store, name, hash = crypto::hash_password(password),
                shown = is_random ? password : std::string()] {
          const auto stored = hash ? store(*hash) : Result<void>(hash.error());
          reply.send(stored ? Result<api::FirstPassword>(api::FirstPassword{name, shown})
                            : Result<api::FirstPassword>(stored.error()));
        };
      });
  return runs ? Result<void>() : too_many_logins();
}

}  // namespace lockstep::server

#include "platform/server/login/oidc_login.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "base/format.h"
#include "base/log.h"
#include "base/os/files.h"
#include "base/steady_clock.h"
#include "net/crypto.h"
#include "platform/server/login/login_token.h"
#include "platform/server/people/gate.h"

namespace lockstep::server {
namespace {

using std::chrono::seconds;

constexpr std::size_t kCallsWaitingMax = 16;
constexpr Duration kIssuerTime = seconds(10);  // of one step of a log-in
constexpr Duration kCodeLife = std::chrono::minutes(10);
constexpr Duration kDeviceLifeMax = std::chrono::hours(1);
constexpr int kInterval = 5;  // seconds between two polls; RFC 8628, section 3.2
constexpr std::size_t kTableMax = 1 << 20;

Duration since_boot() { return MonotonicClock().since_boot(); }

Error too_many_calls() {
  return {Code::unavailable, "too many log-ins at a time; try again in a few seconds"};
}

Error unknown_login() {
  return {Code::denied, "there is no such log-in, or it has ended; begin again"};
}

int whole_seconds(Duration duration) {
  return static_cast<int>(std::chrono::ceil<seconds>(duration).count());
}

}  // namespace

OidcLogin::OidcLogin(net::Loop& loop, const OidcSetup& setup, Accounts& accounts,
                     const model::State& state, const Clock& clock)
    : setup_(setup),
      accounts_(accounts),
      state_(state),
      clock_(clock),
      http_(setup.authorities),
      issuer_(setup.issuer, http_, clock),
      tasks_(loop, kCallsWaitingMax) {}

Result<identity::RoleTable> OidcLogin::read_table() const {
  if (setup_.roles_file.empty()) return identity::RoleTable{};
  return identity::parse_role_table(TRY(read_file(setup_.roles_file, kTableMax)),
                                    setup_.roles_file.string());
}

Result<identity::OidcUser> OidcLogin::user_of(const identity::Claims& claims) const {
  return identity::oidc_user(claims, setup_.issuer.url, TRY(read_table()));
}

// --- Device flow ---

Result<void> OidcLogin::start_device(const RouteCall<api::kDeviceLogin>&,
                                     const Reply<api::DeviceLogin>& reply) {
  const auto start = [this]() -> Result<identity::DeviceCodes> {
    return issuer_.start_device(TRY(read_table()).scopes, Deadline::after(kIssuerTime));
  };
  const bool runs = tasks_.run([this, start, reply]() -> LoopTasks::Continuation {
    return [this, reply, codes = start()] {
      if (!codes) return reply.send(codes.error());
      const Duration now = since_boot();
      const int interval = std::max(codes->interval.value_or(kInterval), 1);
      const Duration life = std::min<Duration>(seconds(codes->expires_in), kDeviceLifeMax);
      const std::string login = net::random_hex(32);
      devices_.add(login, {codes->device_code, seconds(interval), now + seconds(interval)},
                   now + life, now);
      reply.send(api::DeviceLogin{.login = login,
                                  .user_code = codes->user_code,
                                  .verification_uri = codes->verification_uri,
                                  .verification_uri_complete = codes->verification_uri_complete,
                                  .expires_seconds = whole_seconds(life),
                                  .interval_seconds = interval});
    };
  });
  return runs ? Result<void>() : too_many_calls();
}

// A poll that comes too soon is answered without the issuer.
Result<void> OidcLogin::poll_device(const RouteCall<api::kDevicePoll>& call,
                                    const Reply<api::DevicePollAnswer>& reply) {
  const std::string& login = call.request.login;
  const Duration now = since_boot();
  DeviceWait* wait = devices_.find(login, now);
  if (wait == nullptr) return unknown_login();
  if (wait->is_asking || now < wait->next_poll) {
    const Duration left = std::max<Duration>(wait->next_poll - now, seconds(1));
    reply.send(api::DevicePollAnswer{.interval_seconds = whole_seconds(left)});
    return {};
  }
  wait->is_asking = true;
  const bool runs = tasks_.run([this, login, code = wait->device_code, caller = call.caller,
                                reply]() -> LoopTasks::Continuation {
    const auto poll = issuer_.poll_device(code, Deadline::after(kIssuerTime));
    const bool is_too_fast = poll && poll->is_too_fast;
    Result<std::optional<identity::OidcUser>> user = std::optional<identity::OidcUser>();
    if (!poll) user = poll.error();
    if (poll && poll->claims) {
      auto named = user_of(*poll->claims);
      user = named ? Result(std::optional(*std::move(named)))
                   : Result<std::optional<identity::OidcUser>>(named.error());
    }
    return [this, login, caller, reply, user, is_too_fast] {
      reply.send(polled(login, caller, user, is_too_fast));
    };
  });
  if (!runs) wait->is_asking = false;
  return runs ? Result<void>() : too_many_calls();
}

// An issuer that does not answer is asked again: the user may have agreed.
Result<api::DevicePollAnswer> OidcLogin::polled(
    const std::string& login, const Principal& caller,
    const Result<std::optional<identity::OidcUser>>& user, bool is_too_fast) {
  const Duration now = since_boot();
  DeviceWait* wait = devices_.find(login, now);
  if (wait == nullptr) return unknown_login();
  const bool is_lost =
      !user && user.error().code != Code::unavailable && user.error().code != Code::timeout;
  if (is_lost || (user && *user)) {
    devices_.erase(login);
    const identity::OidcUser found = *TRY(user);
    return api::DevicePollAnswer{.pending = false, .login = TRY(log_in(found, caller))};
  }
  wait->is_asking = false;
  if (is_too_fast) wait->interval += seconds(kInterval);
  wait->next_poll = now + wait->interval;
  TRY(user);
  return api::DevicePollAnswer{.interval_seconds = whole_seconds(wait->interval)};
}

// --- Code flow ---

Result<void> OidcLogin::start_code(const std::string& browser, const std::string& redirect_uri,
                                   const Url& then) {
  const auto url = [this,
                    redirect_uri](const identity::CodeSecrets& secrets) -> Result<std::string> {
    return issuer_.authorization_url(secrets, TRY(read_table()).scopes, redirect_uri,
                                     Deadline::after(kIssuerTime));
  };
  const bool runs =
      tasks_.run([this, url, browser, redirect_uri, then]() -> LoopTasks::Continuation {
        const auto secrets = identity::CodeSecrets::random();
        return [this, secrets, browser, redirect_uri, then, found = url(secrets)] {
          const Duration now = since_boot();
          if (found)
            codes_.add(secrets.state, {secrets, browser, redirect_uri}, now + kCodeLife, now);
          then(found);
        };
      });
  return runs ? Result<void>() : too_many_calls();
}

Result<void> OidcLogin::finish_code(const std::string& browser, const std::string& state,
                                    const std::string& code, const Principal& caller,
                                    const LoggedIn& then) {
  const CodeWait* wait = codes_.find(state, since_boot());
  if (wait == nullptr || !net::equal_constant_time(wait->browser, browser)) return unknown_login();
  const CodeWait begun = *wait;
  codes_.erase(state);
  const auto exchange = [this, begun, code]() -> Result<identity::OidcUser> {
    return user_of(TRY(issuer_.exchange_code(begun.secrets, code, begun.redirect_uri,
                                             Deadline::after(kIssuerTime))));
  };
  const bool runs = tasks_.run([this, exchange, caller, then]() -> LoopTasks::Continuation {
    return [this, caller, then, user = exchange()] {
      then(user ? log_in(*user, caller) : Result<api::LoginAnswer>(user.error()));
    };
  });
  return runs ? Result<void>() : too_many_calls();
}

// --- Both ---

Result<api::LoginAnswer> OidcLogin::log_in(const identity::OidcUser& user,
                                           const Principal& caller) {
  const identity::Directory& directory = accounts_.directory();
  const Time now = clock_.now();
  identity::OidcLogin login = TRY(identity::log_in(directory, user, now));
  const bool is_new = identity::find_user(directory, login.user) == nullptr;
  if (is_new && state_.numbers.contains(login.user))
    return Error{Code::denied,
                 format("there are runs of a project {}, which would be the user's own; ask an "
                        "administrator",
                        login.user)};
  identity::Directory with_user;
  if (is_new) {
    with_user = directory;
    identity::apply(with_user, login.changes);
  }
  LoginToken made =
      TRY(make_login_token(is_new ? with_user : directory, login.user, kOidcLogin, now));
  for (const std::string& project : login.unknown_projects)
    LS_LOG(warning,
           "{} names the project {}, which does not exist: add it by `lockstep project "
           "add {}`",
           setup_.roles_file.string(), project, project);
  std::ranges::move(made.changes, std::back_inserter(login.changes));
  TRY(accounts_.change(login.changes, {.time = now,
                                       .user = login.user,
                                       .address = caller.address,
                                       .action = "user.login",
                                       .target = login.user,
                                       .after = is_new ? "by OIDC, as a new user" : "by OIDC"}));
  return std::move(made.answer);
}

}  // namespace lockstep::server

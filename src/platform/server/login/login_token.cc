#include "platform/server/login/login_token.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <vector>

#include "base/check.h"
#include "base/format.h"
#include "platform/identity/token.h"
#include "platform/server/login/cookies.h"

namespace lockstep::server {
namespace {

constexpr Duration kLoginLife = std::chrono::days(30);
constexpr std::size_t kLoginTokensMax = 100;
constexpr std::string_view kSessionPath = "Path=/; SameSite=Strict";

// Oldest first.
std::vector<const identity::Token*> logins_of(const identity::Directory& directory,
                                              const std::string& user, std::string_view name) {
  auto tokens = identity::tokens_of(directory, user);
  std::erase_if(tokens, [&](const identity::Token* token) { return token->name != name; });
  return tokens;
}

// With the sessions of the page that it made.
void append_end(identity::Changes& changes, const identity::Directory& directory,
                const identity::Token& token) {
  const auto revoked = identity::revoke_token(directory, token.id);
  LS_CHECK(revoked.has_value(), "the directory has the token {}", token.id);
  changes.insert(changes.end(), revoked->begin(), revoked->end());
}

}  // namespace

Result<LoginToken> make_login_token(const identity::Directory& directory, const std::string& user,
                                    std::string_view name, Time now, std::optional<Time> ends_max,
                                    std::string parent) {
  const identity::TokenText text = identity::new_token();
  const Time ends = std::min(now + kLoginLife, ends_max.value_or(Time::max()));
  LoginToken made{
      .changes = TRY(identity::add_token(
          directory,
          {.user = user, .name = std::string(name), .ends = ends, .parent = std::move(parent)},
          text, now)),
      .answer = {.user = user, .token = identity::text(text), .ends = ends}};
  const auto before = logins_of(directory, user, name);
  if (before.size() >= kLoginTokensMax)
    made.changes.push_back({.row = *before.front(), .removed = true});
  return made;
}

bool is_of_login(const identity::Token& token) {
  return token.name == kPasswordLogin || token.name == kOidcLogin || token.name == kPageLogin;
}

std::string session_cookie(std::string_view cookie, std::string_view token,
                           std::optional<Time> ends, Time now, bool is_https) {
  const Duration life = std::min(kLoginLife, ends.value_or(Time::max()) - now);
  const auto seconds = std::chrono::floor<std::chrono::seconds>(life).count();
  return set_cookie(cookie, token, format("{}; Max-Age={}", kSessionPath, seconds), is_https);
}

std::string no_session_cookie(std::string_view cookie, bool is_https) {
  return set_cookie(cookie, "", format("{}; Max-Age=0", kSessionPath), is_https);
}

void end_replaced_session(Accounts& accounts, const Principal& caller, Time now) {
  const identity::Directory& directory = accounts.directory();
  const identity::Token* row = identity::find_token(directory, caller.session.token, now);
  if (row == nullptr || !is_of_login(*row)) return;
  const model::AuditRecord record{.time = now,
                                  .user = row->user,
                                  .token = row->id,
                                  .address = caller.address,
                                  .action = "user.logout",
                                  .target = row->user,
                                  .after = "by another log-in of its browser"};
  const auto revoked = identity::revoke_token(directory, std::string(row->id));
  // A session that could not be ended now ends with its token.
  if (revoked) (void)accounts.change(*revoked, record);
}

identity::Changes end_password_logins(const identity::Directory& directory, const std::string& user,
                                      std::string_view kept_token) {
  identity::Changes changes;
  for (const identity::Token* token : logins_of(directory, user, kPasswordLogin))
    if (token->id != kept_token) append_end(changes, directory, *token);
  return changes;
}

}  // namespace lockstep::server

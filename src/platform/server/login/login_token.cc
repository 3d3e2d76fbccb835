#include "platform/server/login/login_token.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <vector>

namespace lockstep::server {
namespace {

constexpr Duration kLoginLife = std::chrono::days(30);
constexpr std::size_t kLoginTokensMax = 100;

// Oldest first.
std::vector<const identity::Token*> logins_of(const identity::Directory& directory,
                                              const std::string& user, std::string_view name) {
  auto tokens = identity::tokens_of(directory, user);
  std::erase_if(tokens, [&](const identity::Token* token) { return token->name != name; });
  return tokens;
}

}  // namespace

Result<LoginToken> make_login_token(const identity::Directory& directory, const std::string& user,
                                    std::string_view name, Time now) {
  const identity::TokenText text = identity::new_token();
  const Time ends = now + kLoginLife;
  LoginToken made{
      .changes = TRY(identity::add_token(
          directory, {.user = user, .name = std::string(name), .ends = ends}, text, now)),
      .answer = {.user = user, .token = identity::text(text), .ends = ends}};
  const auto before = logins_of(directory, user, name);
  if (before.size() >= kLoginTokensMax)
    made.changes.push_back({.row = *before.front(), .removed = true});
  return made;
}

identity::Changes end_password_logins(const identity::Directory& directory, const std::string& user,
                                      std::string_view kept_token) {
  identity::Changes changes;
  for (const identity::Token* token : logins_of(directory, user, kPasswordLogin))
    if (token->id != kept_token) changes.push_back({.row = *token, .removed = true});
  return changes;
}

}  // namespace lockstep::server

// The changes of the directory, as rows to store or a reason to refuse. Pure: apply() makes them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"
#include "platform/identity/directory.h"
#include "platform/identity/token.h"

namespace lockstep::identity {

// A user has at most this many tokens that have not ended.
inline constexpr std::size_t kTokensMax = 1000;

// At the start of a daemon: its own user is an admin, with a personal project; and the shared
// project exists. No changes if all are as they should be.
Changes first_rows(const Directory& directory, Time now);

// A person, and the personal project of its name, of which it is a manager. The name must be new,
// also as that of a project.
Result<Changes> add_user(const Directory& directory, std::string_view name, Time now);
// A service account: a member of one project, with tokens and no password.
Result<Changes> add_service(const Directory& directory, std::string_view name,
                            std::string_view project, Role role, Time now);
// Its tokens, memberships and own secrets end; its name is kept. Refuses the last admin.
Result<Changes> remove_user(const Directory& directory, std::string_view name, Time now);
Result<Changes> set_disabled(const Directory& directory, std::string_view name, bool disabled);
Result<Changes> set_admin(const Directory& directory, std::string_view name, bool admin);
Result<Changes> set_password_hash(const Directory& directory, std::string_view name,
                                  std::string hash);
// "ISSUER SUBJECT"; refuses one that another user has.
Result<Changes> set_oidc_subject(const Directory& directory, std::string_view name,
                                 std::string subject);

Result<Changes> add_project(const Directory& directory, std::string_view name, Time now);
// Its members, service accounts, tokens and secrets go; its runs stay, for admins. No personal
// project.
Result<Changes> remove_project(const Directory& directory, std::string_view name, Time now);
// No role: the user is no member any more.
Result<Changes> set_member(const Directory& directory, std::string_view project,
                           std::string_view user, std::optional<Role> role);

inline constexpr std::size_t kSecretsMax = 1000;  // of a project

// The name has been checked. Replaces a value of that name.
Result<Changes> set_secret(const Directory& directory, Secret secret);
Result<Changes> remove_secret(const Directory& directory, const SecretId& id);

struct NewToken {
  std::string user;
  std::string name{};
  std::string project{};
  std::optional<Role> role{};
  std::optional<Time> ends{};
  std::string parent{};  // it is revoked together with this token
};
// Tokens of the user that ended a month ago go at the same time.
Result<Changes> add_token(const Directory& directory, const NewToken& token, const TokenText& text,
                          Time now);
// With the tokens of the log-ins to the page that it made.
Result<Changes> revoke_token(const Directory& directory, std::string_view id);

}  // namespace lockstep::identity

// Directory: all users, projects, members, tokens and secrets in memory; a pure value. changes.h
// has the changes, rights.h the decisions.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "platform/identity/rows.h"

namespace lockstep::identity {

// The project of runs that name none, if their user may start runs there.
inline constexpr std::string_view kSharedProject = "default";

struct Directory {
  std::map<std::string, User, std::less<>> users;
  std::map<std::string, Project, std::less<>> projects;
  std::map<MemberId, Member> members;
  std::map<std::string, Token, std::less<>> tokens;
  std::map<SecretId, Secret> secrets;
  // The daemon's own user, whose token is a file of its folder. It stays an admin. No row.
  std::string daemon_user;

  bool operator==(const Directory&) const = default;
};

void apply(Directory& directory, const Changes& changes);

// Null: there is none, or it was removed.
const User* find_user(const Directory& directory, std::string_view name);
// Neither removed nor disabled.
bool is_active(const Directory& directory, std::string_view user);
// The errors name the command that lists them.
Result<const User*> require_user(const Directory& directory, std::string_view name);
Result<const Project*> require_project(const Directory& directory, std::string_view name);
Error no_such_project(std::string_view name);
// By project.
std::vector<const Member*> members_of(const Directory& directory, std::string_view project);
std::vector<const Member*> memberships_of(const Directory& directory, std::string_view user);
std::vector<const Secret*> secrets_of(const Directory& directory, std::string_view project);
std::vector<const Token*> tokens_of(const Directory& directory, std::string_view user);

// A user or project has 1 to 64 of a-z 0-9 . _ - and a letter or digit in front. The error does not
// quote the name, which may have any characters.
Result<void> check_identity_name(std::string_view what, std::string_view name);
// The nearest permitted name of a Unix user.
std::string name_of_unix_user(std::string_view user);

}  // namespace lockstep::identity

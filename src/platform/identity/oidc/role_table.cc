#include "platform/identity/oidc/role_table.h"

#include <algorithm>
#include <set>
#include <utility>
#include <variant>

#include "base/format.h"
#include "platform/identity/changes.h"
#include "text/convert.h"
#include "text/document.h"

namespace lockstep::identity {
namespace {

constexpr auto kEachUser = "*";

std::set<std::string> groups_of(const Json& claims, const std::string& name) {
  std::set<std::string> groups{kEachUser};
  const auto found = claims.find(name);
  if (found == claims.end()) return groups;
  if (found->is_string()) groups.insert(found->get<std::string>());
  if (found->is_array())
    for (const Json& each : *found)
      if (each.is_string()) groups.insert(each.get<std::string>());
  return groups;
}

// "Ann.Smith@example.com" is ann.smith.
Result<std::string> name_of(const Json& claims, const std::string& claim) {
  const auto found = claims.find(claim);
  if (found == claims.end() || !found->is_string())
    return Error{Code::denied, format("the ID token has no claim {} with the user's name; the "
                                      "table of roles can name another user_claim",
                                      claim)};
  std::string name = found->get<std::string>();
  name = name.substr(0, name.find('@'));
  std::ranges::transform(name, name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  if (auto checked = check_identity_name("the claim " + claim, name); !checked)
    return Error{Code::denied, checked.error().message};
  return name;
}

void add_rights(const GroupRights& rights, OidcUser& user) {
  if (rights.admin) user.admin = true;
  for (const auto& [project, role] : rights.projects) {
    auto& highest = user.projects[project];
    highest = std::max(highest.value_or(Role::viewer), role);
  }
}

const User* user_with(const Directory& directory, const std::string& subject) {
  const auto found = std::ranges::find_if(directory.users, [&](const auto& entry) {
    return entry.second.oidc_subject == subject && !entry.second.removed;
  });
  return found == directory.users.end() ? nullptr : &found->second;
}

Error name_is_taken(const OidcUser& user) {
  const std::string subject = user.subject.substr(user.subject.find(' ') + 1);
  return {Code::denied,
          format("there is a user {} already, which does not log in at this issuer; if it is you, "
                 "have an administrator type `lockstep user link {} {}`",
                 user.name, user.name, subject)};
}

// The daemon's own user and the last admin stay admins.
void set_admin_if_possible(const Directory& directory, const User& user, bool admin,
                           Changes& changes) {
  if (auto set = set_admin(directory, user.name, admin))
    changes.insert(changes.end(), set->begin(), set->end());
}

void set_role(const Directory& directory, const MemberId& id, std::optional<Role> role,
              Changes& changes) {
  const auto known = directory.members.find(id);
  const bool is_member = known != directory.members.end();
  if (role && (!is_member || known->second.role != *role))
    changes.push_back({.row = Member{.id = id, .role = *role}});
  else if (!role && is_member)
    changes.push_back({.row = known->second, .removed = true});
}

}  // namespace

Result<RoleTable> parse_role_table(std::string_view text, std::string_view name) {
  return from_document<RoleTable>(TRY(parse_yaml(text, name)));
}

Result<OidcUser> oidc_user(const Claims& claims, const std::string& issuer,
                           const RoleTable& table) {
  OidcUser user{.name = TRY(name_of(claims.all, table.user_claim)),
                .subject = format("{} {}", issuer, claims.subject)};
  if (!table.groups) return user;
  const auto groups = groups_of(claims.all, table.group_claim);
  bool is_known = false;
  for (const auto& [group, rights] : *table.groups) {
    if (rights.admin && !user.admin) user.admin = false;
    for (const auto& [project, role] : rights.projects) user.projects.try_emplace(project);
    if (!groups.contains(group)) continue;
    is_known = true;
    add_rights(rights, user);
  }
  if (is_known) return user;
  return Error{Code::denied,
               format("{} is in no group that may log in here; ask an administrator", user.name)};
}

Result<OidcLogin> log_in(const Directory& directory, const OidcUser& user, Time now) {
  const User* known = user_with(directory, user.subject);
  OidcLogin login{.user = known != nullptr ? known->name : user.name};
  if (known != nullptr && known->disabled)
    return Error{Code::denied,
                 format("the user {} is disabled; ask an administrator", known->name)};
  if (known == nullptr) {
    if (find_user(directory, user.name) != nullptr) return name_is_taken(user);
    login.changes = TRY(add_user(directory, user.name, now));
    User& row = std::get<User>(login.changes.front().row);
    row.oidc_subject = user.subject;
    row.admin = user.admin.value_or(false);
  } else if (user.admin) {
    set_admin_if_possible(directory, *known, *user.admin, login.changes);
  }
  for (const auto& [project, role] : user.projects) {
    const auto found = directory.projects.find(project);
    if (found == directory.projects.end())
      login.unknown_projects.push_back(project);
    else if (found->second.owner != login.user)
      set_role(directory, {project, login.user}, role, login.changes);
  }
  return login;
}

}  // namespace lockstep::identity

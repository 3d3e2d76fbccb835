// RoleTable: which users of an issuer may log in, and with which roles; from a file of the
// administrators. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "platform/identity/directory.h"
#include "platform/identity/oidc/id_token.h"
#include "text/record.h"

namespace lockstep::identity {

struct GroupRights {
  std::map<std::string, Role> projects;
  bool admin = false;

  static constexpr auto fields() {
    return record<GroupRights>(
        field("projects", &GroupRights::projects, "the role in each project"),
        field("admin", &GroupRights::admin, "may do everything"));
  }
};

struct RoleTable {
  std::string user_claim = "preferred_username";
  std::string group_claim = "groups";
  std::string scopes = "openid profile email";
  std::optional<std::map<std::string, GroupRights>> groups{};  // none: all users, without roles

  static constexpr auto fields() {
    return record<RoleTable>(
        field("user_claim", &RoleTable::user_claim, "of the ID token, with the user's name"),
        field("group_claim", &RoleTable::group_claim, "of the ID token, with the user's groups"),
        field("scopes", &RoleTable::scopes, "that the log-in asks for"),
        field("groups", &RoleTable::groups,
              "the rights of each group; * is each user; others may not log in"));
  }
};

// YAML; `name` is the file's, for errors.
Result<RoleTable> parse_role_table(std::string_view text, std::string_view name);

// A user as its ID token and the table have it.
struct OidcUser {
  std::string name;
  std::string subject;          // "ISSUER SUBJECT"
  std::optional<bool> admin{};  // none: the table does not decide it
  // Each project that the table names; no role: it is no member.
  std::map<std::string, std::optional<Role>> projects{};
};

// Code::denied: it is in no group of the table, or its name cannot be one.
Result<OidcUser> oidc_user(const Claims& claims, const std::string& issuer, const RoleTable& table);

struct OidcLogin {
  std::string user;
  Changes changes{};
  // Projects of the table that do not exist: they are left out.
  std::vector<std::string> unknown_projects{};
};
// The user that logs in, with its rows as the table wants them. Code::denied: another user has the
// name, or the user is disabled.
Result<OidcLogin> log_in(const Directory& directory, const OidcUser& user, Time now);

}  // namespace lockstep::identity

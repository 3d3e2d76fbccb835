// The tables of users, projects, members, tokens and secrets; see tables.h.
#pragma once

#include "platform/identity/rows.h"
#include "platform/store/table.h"

namespace lockstep::store {

template <>
struct Table<identity::User> {
  using User = identity::User;
  static constexpr std::string_view name = "users";
  static std::string place(const User& user) { return user.name; }
  static constexpr auto columns() {
    return std::tuple(
        key("name", &User::name), fixed("kind", &User::kind), fixed("project", &User::project),
        column("admin", &User::admin), column("disabled", &User::disabled),
        column("password_hash", &User::password_hash), column("oidc_subject", &User::oidc_subject),
        fixed("created", &User::created), column("removed", &User::removed));
  }
};

template <>
struct Table<identity::Project> {
  using Project = identity::Project;
  static constexpr std::string_view name = "projects";
  static std::string place(const Project& project) { return project.name; }
  static constexpr auto columns() {
    return std::tuple(key("name", &Project::name), column("owner", &Project::owner),
                      column("created", &Project::created));
  }
};

template <>
struct Table<identity::Member> {
  using Member = identity::Member;
  static constexpr std::string_view name = "members";
  static std::string place(const Member& member) {
    return format("{} of {}", member.id.user, member.id.project);
  }
  static constexpr auto columns() {
    return std::tuple(key("project", [](auto& member) -> auto& { return member.id.project; }),
                      key("user", [](auto& member) -> auto& { return member.id.user; }),
                      column("role", &Member::role));
  }
};

template <>
struct Table<identity::Token> {
  using Token = identity::Token;
  static constexpr std::string_view name = "tokens";
  static std::string place(const Token& token) { return token.id; }
  static constexpr auto columns() {
    return std::tuple(key("id", &Token::id), fixed("secret_hash", &Token::secret_hash),
                      fixed("user", &Token::user), fixed("name", &Token::name),
                      fixed("project", &Token::project), fixed("role", &Token::role),
                      fixed("created", &Token::created), fixed("ends", &Token::ends),
                      column("last_used", &Token::last_used), fixed("parent", &Token::parent));
  }
};

template <>
struct Table<identity::Secret> {
  using Secret = identity::Secret;
  static constexpr std::string_view name = "secrets";
  static std::string place(const Secret& secret) {
    return format("{} of {}", secret.id.name, secret.id.project);
  }
  static constexpr auto columns() {
    return std::tuple(key("project", [](auto& secret) -> auto& { return secret.id.project; }),
                      key("name", [](auto& secret) -> auto& { return secret.id.name; }),
                      column("sealed", &Secret::sealed), column("set_by", &Secret::set_by),
                      column("set_at", &Secret::set));
  }
};

}  // namespace lockstep::store

// The rows of users, projects, members, tokens and secrets, as the store has them.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/units.h"
#include "platform/identity/role.h"

namespace lockstep::identity {

// The name of a user or project that was removed is kept, and never given again: runs and records
// have it.
struct User {
  std::string name;
  UserKind kind = UserKind::person;
  std::string project{};        // of a service account: the one that it belongs to
  bool admin = false;           // of the cluster
  bool disabled = false;        // its tokens and log-ins are refused
  std::string password_hash{};  // with its salt and parameters; empty: it has no password
  std::string oidc_subject{};   // "ISSUER SUBJECT" of its log-ins by OIDC; empty: none yet
  Time created{};
  std::optional<Time> removed{};

  bool operator==(const User&) const = default;
};

struct Project {
  std::string name;
  std::string owner{};  // of a personal project: the user, whose name it has; empty: it is shared
  Time created{};

  bool operator==(const Project&) const = default;
};

struct MemberId {
  std::string project, user;
  auto operator<=>(const MemberId&) const = default;
};

struct Member {
  MemberId id;
  Role role = Role::viewer;

  bool operator==(const Member&) const = default;
};

// It never gives more rights than its user has.
struct Token {
  std::string id;           // the part of its text that is no secret
  std::string secret_hash;  // hex SHA-256 of the secret
  std::string user;
  std::string name{};          // the user's own words for it
  std::string project{};       // it gives rights in this project only; empty: in all of the user's
  std::optional<Role> role{};  // the highest role that it gives; none: the user's
  Time created{};
  std::optional<Time> ends{};
  std::optional<Time> last_used{};  // within ten minutes
  std::string parent{};             // the token that made it, and with which it ends; empty: none

  bool operator==(const Token&) const = default;
};

struct SecretId {
  std::string project, name;
  auto operator<=>(const SecretId&) const = default;
};

// A value that runs of the project may have in a variable.
struct Secret {
  SecretId id;
  std::string sealed;  // the value, encrypted under a key of its own
  std::string set_by{};
  Time set{};

  bool operator==(const Secret&) const = default;
};

using Row = std::variant<User, Project, Member, Token, Secret>;

// A row as it is after the change, or one that is removed.
struct Change {
  Row row;
  bool removed = false;

  bool operator==(const Change&) const = default;
};
using Changes = std::vector<Change>;

}  // namespace lockstep::identity

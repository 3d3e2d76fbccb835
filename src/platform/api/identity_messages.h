// Messages about users, projects, tokens and the audit; see messages.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "platform/identity/role.h"
#include "text/record.h"

namespace lockstep::api {

// The user by whose token the call comes, and its rights.
struct WhoAmI {
  std::string user;
  identity::UserKind kind = identity::UserKind::person;
  bool admin = false;
  std::string token;
  std::optional<Time> token_ends;
  std::map<std::string, identity::Role> projects;
  std::string default_project;
  std::string address;

  static constexpr auto fields() {
    return record<WhoAmI>(
        field("user", &WhoAmI::user, "the user's name"),
        field("kind", &WhoAmI::kind, "a person, or a service account of a project"),
        field("admin", &WhoAmI::admin, "may do everything"),
        field("token", &WhoAmI::token,
              "the id of the token; empty: it is the one in the daemon's folder"),
        field("token_ends", &WhoAmI::token_ends, "when the token ends; absent: never"),
        field("projects", &WhoAmI::projects,
              "the role in each project, as far as the token gives it; an admin's in others is "
              "manager"),
        field("default_project", &WhoAmI::default_project, "the project of a run that names none"),
        field("address", &WhoAmI::address,
              "from which the call comes; empty: the daemon's machine"));
  }
};

struct UserView {
  std::string name;
  identity::UserKind kind = identity::UserKind::person;
  std::string project;
  bool admin = false;
  bool disabled = false;
  bool has_password = false;
  std::string oidc_subject;
  Time created{};
  int tokens = 0;
  std::map<std::string, identity::Role> projects;

  static constexpr auto fields() {
    return record<UserView>(
        field("name", &UserView::name, "the user's name"),
        field("kind", &UserView::kind, "a person, or a service account of a project"),
        field("project", &UserView::project, "of a service account: the one that it belongs to"),
        field("admin", &UserView::admin, "may do everything"),
        field("disabled", &UserView::disabled, "its tokens and log-ins are refused"),
        field("has_password", &UserView::has_password, "it can log in by a password"),
        field("oidc_subject", &UserView::oidc_subject,
              "issuer and subject of its log-ins by OIDC; empty: none yet"),
        field("created", &UserView::created, "when it was added"),
        field("tokens", &UserView::tokens, "how many tokens it has"),
        field("projects", &UserView::projects, "its role in each project"));
  }
};

struct UserList {
  std::vector<UserView> users;

  static constexpr auto fields() {
    return record<UserList>(field("users", &UserList::users, "by name"));
  }
};

struct AddUserRequest {
  std::string name;
  bool admin = false;

  static constexpr auto fields() {
    return record<AddUserRequest>(
        required(field("name", &AddUserRequest::name,
                       "1 to 64 of a-z 0-9 . _ - and a letter or digit in front")),
        field("admin", &AddUserRequest::admin, "may do everything"));
  }
};

// A field that is absent stays as it is.
struct ChangeUserRequest {
  std::optional<bool> admin;
  std::optional<bool> disabled;

  static constexpr auto fields() {
    return record<ChangeUserRequest>(
        field("admin", &ChangeUserRequest::admin, "may do everything"),
        field("disabled", &ChangeUserRequest::disabled, "its tokens and log-ins are refused"));
  }
};

struct MemberView {
  std::string user;
  identity::UserKind kind = identity::UserKind::person;
  identity::Role role = identity::Role::viewer;

  static constexpr auto fields() {
    return record<MemberView>(
        field("user", &MemberView::user, "the user's name"),
        field("kind", &MemberView::kind, "a person, or a service account of the project"),
        field("role", &MemberView::role, "viewer, member or manager"));
  }
};

struct ProjectView {
  std::string name;
  std::string owner;
  Time created{};
  std::vector<MemberView> members;

  static constexpr auto fields() {
    return record<ProjectView>(
        field("name", &ProjectView::name, "the project's name"),
        field("owner", &ProjectView::owner,
              "of a personal project: its user; empty: the project is shared"),
        field("created", &ProjectView::created, "when it was added"),
        field("members", &ProjectView::members, "by name"));
  }
};

struct ProjectList {
  std::vector<ProjectView> projects;

  static constexpr auto fields() {
    return record<ProjectList>(
        field("projects", &ProjectList::projects, "those that the caller may read, by name"));
  }
};

struct AddProjectRequest {
  std::string name;

  static constexpr auto fields() {
    return record<AddProjectRequest>(
        required(field("name", &AddProjectRequest::name,
                       "1 to 64 of a-z 0-9 . _ - and a letter or digit in front")));
  }
};

struct MemberRequest {
  std::string user;
  std::optional<identity::Role> role;

  static constexpr auto fields() {
    return record<MemberRequest>(
        required(field("user", &MemberRequest::user, "the user's name")),
        field("role", &MemberRequest::role,
              "viewer, member or manager; absent: it is no member any more"));
  }
};

struct AddServiceRequest {
  std::string name;
  identity::Role role = identity::Role::member;

  static constexpr auto fields() {
    return record<AddServiceRequest>(
        required(field("name", &AddServiceRequest::name,
                       "1 to 64 of a-z 0-9 . _ - and a letter or digit in front")),
        field("role", &AddServiceRequest::role, "viewer, member or manager"));
  }
};

struct TokensQuery {
  std::optional<std::string> user;

  static constexpr auto fields() {
    return record<TokensQuery>(field("user", &TokensQuery::user,
                                     "whose: an admin may ask for each user, a manager for service "
                                     "accounts of its projects; absent: the caller's own"));
  }
};

struct TokenView {
  std::string id;
  std::string user;
  std::string name;
  std::string project;
  std::optional<identity::Role> role;
  Time created{};
  std::optional<Time> ends;
  bool ended = false;
  std::optional<Time> last_used;

  static constexpr auto fields() {
    return record<TokenView>(
        field("id", &TokenView::id, "the part of the token that is no secret"),
        field("user", &TokenView::user, "whose it is"),
        field("name", &TokenView::name, "the user's own words for it"),
        field("project", &TokenView::project, "its only project; empty: all of the user's"),
        field("role", &TokenView::role, "the highest role that it gives; absent: the user's"),
        field("created", &TokenView::created, "when it was made"),
        field("ends", &TokenView::ends, "when it ends; absent: never"),
        field("ended", &TokenView::ended, "it is refused"),
        field("last_used", &TokenView::last_used,
              "about when it was last used, to ten minutes; absent: never"));
  }
};

struct TokenList {
  std::vector<TokenView> tokens;

  static constexpr auto fields() {
    return record<TokenList>(field("tokens", &TokenList::tokens, "oldest first"));
  }
};

struct AddTokenRequest {
  std::string name;
  std::optional<std::string> user;
  std::string project;
  std::optional<identity::Role> role;
  std::optional<Duration> expires;

  static constexpr auto fields() {
    return record<AddTokenRequest>(
        field("name", &AddTokenRequest::name, "words to know it by, at most 64 characters"),
        field("user", &AddTokenRequest::user,
              "whose: an admin may name each user, a manager service accounts of its projects; "
              "absent: the caller"),
        field("project", &AddTokenRequest::project,
              "it gives rights in this project only; empty: in all of the user's"),
        field("role", &AddTokenRequest::role, "the highest role that it gives; absent: the user's"),
        field("expires", &AddTokenRequest::expires, "ends after this time; absent: never"));
  }
};

struct NewTokenView {
  std::string token;
  TokenView about;

  static constexpr auto fields() {
    return record<NewTokenView>(
        field("token", &NewTokenView::token, "the token; the daemon does not know it afterwards"),
        field("about", &NewTokenView::about, "what `token ls` shows of it"));
  }
};

struct AuditQuery {
  std::optional<std::string> user;
  std::optional<std::string> project;
  std::optional<std::string> action;
  std::optional<Time> since;
  std::optional<Time> until;
  std::optional<bool> refused;
  std::optional<std::int64_t> before;
  int limit = 100;

  static constexpr auto fields() {
    return record<AuditQuery>(
        field("user", &AuditQuery::user, "only what this user did"),
        field("project", &AuditQuery::project, "only what was done in this project"),
        field("action", &AuditQuery::action, "only this action, such as run.stop"),
        field("since", &AuditQuery::since, "only from this time on"),
        field("until", &AuditQuery::until, "only before this time"),
        field("refused", &AuditQuery::refused, "only refusals, or only what was done"),
        field("before", &AuditQuery::before, "only records with a lower id: the next page"),
        between(1, 1000, field("limit", &AuditQuery::limit, "the greatest number of records")));
  }
};

struct AuditView {
  std::int64_t id = 0;
  Time time{};
  std::string user;
  std::string token;
  std::string from;
  std::string action;
  std::string target;
  std::string project;
  std::string before;
  std::string after;
  bool refused = false;

  static constexpr auto fields() {
    return record<AuditView>(
        field("id", &AuditView::id, "its number; later records have higher ones"),
        field("time", &AuditView::time, "when"),
        field("user", &AuditView::user, "the user that called"),
        field("token", &AuditView::token,
              "the id of its token; empty: the one in the daemon's folder"),
        field("from", &AuditView::from, "its address; empty: the daemon's machine"),
        field("action", &AuditView::action, "what was done, such as run.stop"),
        field("target", &AuditView::target, "on what, such as demo/42"),
        field("project", &AuditView::project, "of which project; empty: of the cluster"),
        field("before", &AuditView::before, "how it was; empty: it was not there"),
        field("after", &AuditView::after, "how it was to be; empty: it was to go"),
        field("refused", &AuditView::refused, "the user had no right to do it"));
  }
};

struct AuditList {
  std::vector<AuditView> records;
  bool more = false;

  static constexpr auto fields() {
    return record<AuditList>(field("records", &AuditList::records, "newest first"),
                             field("more", &AuditList::more,
                                   "there are older ones: ask with `before`, the id of the last"));
  }
};

}  // namespace lockstep::api

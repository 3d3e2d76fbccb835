#include "platform/identity/changes.h"

#include <algorithm>
#include <chrono>

#include "base/format.h"

namespace lockstep::identity {
namespace {

constexpr Duration kEndedTokenKept = std::chrono::days(30);
constexpr std::size_t kTokenNameMax = 64;

Change put(Row row) { return {.row = std::move(row)}; }
Change removed(Row row) { return {.row = std::move(row), .removed = true}; }

// A token is made before its children, so no chain is a ring.
void remove_with_children(const Directory& directory, const Token& token, Changes& changes) {
  changes.push_back(removed(token));
  for (const Token* other : tokens_of(directory, token.user))
    if (other->parent == token.id) remove_with_children(directory, *other, changes);
}

Result<void> check_new_name(const Directory& directory, std::string_view what,
                            std::string_view name) {
  TRY(check_identity_name(what, name));
  const auto user = directory.users.find(name);
  if (user != directory.users.end())
    return Error{
        Code::already_exists,
        user->second.removed
            ? format("a user {} was removed, and its runs keep the name; choose another", name)
            : format("there is a user {} already", name)};
  if (directory.projects.contains(name))
    return Error{Code::already_exists, format("there is a project {} already", name)};
  return {};
}

// The user is no admin afterwards. The daemon's own user must stay one: its token is a file.
Result<void> check_admin_may_leave(const Directory& directory, const User& user) {
  if (user.name == directory.daemon_user)
    return Error{Code::invalid,
                 format("{} is the user of the daemon: the token in the daemon's folder makes it "
                        "an admin",
                        user.name)};
  const auto is_other_admin = [&](const auto& entry) {
    const User& other = entry.second;
    return other.admin && !other.disabled && !other.removed && other.name != user.name;
  };
  if (!user.admin || user.disabled || std::ranges::any_of(directory.users, is_other_admin))
    return {};
  return Error{Code::invalid, format("{} is the last admin; make another user one first with "
                                     "`lockstep user admin NAME`",
                                     user.name)};
}

void remove_user_rows(const Directory& directory, const User& user, Time now, Changes& changes) {
  User gone = user;
  gone.admin = false;
  gone.password_hash.clear();
  gone.oidc_subject.clear();
  gone.removed = now;
  changes.push_back(put(std::move(gone)));
  for (const Member* member : memberships_of(directory, user.name))
    changes.push_back(removed(*member));
  for (const Token* token : tokens_of(directory, user.name)) changes.push_back(removed(*token));
  if (user.kind == UserKind::person)
    for (const Secret* secret : secrets_of(directory, user.name))
      changes.push_back(removed(*secret));
}

Result<void> check_token_name(std::string_view name) {
  const auto is_plain = [](char c) { return c >= ' ' && c <= '~'; };
  if (name.size() <= kTokenNameMax && std::ranges::all_of(name, is_plain)) return {};
  return Error{Code::invalid, format("name: a token's name has at most {} characters, all of ASCII",
                                     kTokenNameMax)};
}

}  // namespace

Changes first_rows(const Directory& directory, Time now) {
  const std::string& name = directory.daemon_user;
  Changes changes;
  const auto known = directory.users.find(name);
  User user = known == directory.users.end() ? User{.name = name, .created = now} : known->second;
  user.admin = true;
  user.disabled = false;
  user.removed.reset();
  if (known == directory.users.end() || user != known->second) changes.push_back(put(user));
  if (!directory.projects.contains(name))
    changes.push_back(put(Project{.name = name, .owner = name, .created = now}));
  if (!directory.members.contains({name, name}))
    changes.push_back(put(Member{.id = {name, name}, .role = Role::manager}));
  if (!directory.projects.contains(kSharedProject) && name != kSharedProject)
    changes.push_back(put(Project{.name = std::string(kSharedProject), .created = now}));
  return changes;
}

Result<Changes> add_user(const Directory& directory, std::string_view name, Time now) {
  TRY(check_new_name(directory, "user", name));
  const std::string user(name);
  return Changes{put(User{.name = user, .created = now}),
                 put(Project{.name = user, .owner = user, .created = now}),
                 put(Member{.id = {user, user}, .role = Role::manager})};
}

Result<Changes> add_service(const Directory& directory, std::string_view name,
                            std::string_view project, Role role, Time now) {
  TRY(require_project(directory, project));
  TRY(check_new_name(directory, "user", name));
  return Changes{put(User{.name = std::string(name),
                          .kind = UserKind::service,
                          .project = std::string(project),
                          .created = now}),
                 put(Member{.id = {std::string(project), std::string(name)}, .role = role})};
}

Result<Changes> remove_user(const Directory& directory, std::string_view name, Time now) {
  const User& user = *TRY(require_user(directory, name));
  TRY(check_admin_may_leave(directory, user));
  Changes changes;
  remove_user_rows(directory, user, now, changes);
  return changes;
}

Result<Changes> set_disabled(const Directory& directory, std::string_view name, bool disabled) {
  User user = *TRY(require_user(directory, name));
  if (disabled) TRY(check_admin_may_leave(directory, user));
  if (user.disabled == disabled) return Changes();
  user.disabled = disabled;
  return Changes{put(std::move(user))};
}

Result<Changes> set_admin(const Directory& directory, std::string_view name, bool admin) {
  User user = *TRY(require_user(directory, name));
  if (!admin) TRY(check_admin_may_leave(directory, user));
  if (admin && user.kind == UserKind::service)
    return Error{Code::invalid, format("{} is a service account, which cannot be an admin", name)};
  if (user.admin == admin) return Changes();
  user.admin = admin;
  return Changes{put(std::move(user))};
}

Result<Changes> set_password_hash(const Directory& directory, std::string_view name,
                                  std::string hash) {
  User user = *TRY(require_user(directory, name));
  if (user.kind == UserKind::service)
    return Error{Code::invalid, format("{} is a service account, which has no password", name)};
  user.password_hash = std::move(hash);
  return Changes{put(std::move(user))};
}

Result<Changes> set_oidc_subject(const Directory& directory, std::string_view name,
                                 std::string subject) {
  User user = *TRY(require_user(directory, name));
  if (user.kind == UserKind::service)
    return Error{Code::invalid, format("{} is a service account, which has no log-in", name)};
  for (const auto& [other, row] : directory.users)
    if (!subject.empty() && other != name && row.oidc_subject == subject)
      return Error{Code::already_exists, format("the user {} has this log-in already", other)};
  user.oidc_subject = std::move(subject);
  return Changes{put(std::move(user))};
}

Result<Changes> add_project(const Directory& directory, std::string_view name, Time now) {
  TRY(check_new_name(directory, "project", name));
  return Changes{put(Project{.name = std::string(name), .created = now})};
}

Result<Changes> remove_project(const Directory& directory, std::string_view name, Time now) {
  const Project& project = *TRY(require_project(directory, name));
  if (!project.owner.empty() && find_user(directory, project.owner) != nullptr)
    return Error{Code::invalid,
                 format("{} is the personal project of a user; `lockstep user rm {}` removes both",
                        name, project.owner)};
  if (name == kSharedProject)
    return Error{Code::invalid, format("{} is the project of runs that name none; it stays", name)};
  Changes changes{removed(project)};
  for (const Member* member : members_of(directory, name)) {
    const User* user = find_user(directory, member->id.user);
    if (user == nullptr || user->project != name) changes.push_back(removed(*member));
  }
  for (const auto& [user_name, user] : directory.users)
    if (user.project == name && !user.removed) remove_user_rows(directory, user, now, changes);
  for (const auto& [id, token] : directory.tokens)
    if (token.project == name) changes.push_back(removed(token));
  for (const Secret* secret : secrets_of(directory, name)) changes.push_back(removed(*secret));
  return changes;
}

Result<Changes> set_member(const Directory& directory, std::string_view project,
                           std::string_view user, std::optional<Role> role) {
  const Project& row = *TRY(require_project(directory, project));
  const User& member = *TRY(require_user(directory, user));
  if (row.owner == user && role != Role::manager)
    return Error{Code::invalid,
                 format("{} is {}'s personal project, of which it stays a manager", project, user)};
  if (!member.project.empty() && member.project != project)
    return Error{Code::invalid, format("{} is a service account of the project {}, and can be a "
                                       "member of no other",
                                       user, member.project)};
  const MemberId id{std::string(project), std::string(user)};
  const auto known = directory.members.find(id);
  if (!role && known == directory.members.end())
    return Error{Code::not_found, format("{} is no member of the project {}", user, project)};
  if (!role) return Changes{removed(known->second)};
  if (known != directory.members.end() && known->second.role == *role) return Changes();
  return Changes{put(Member{.id = id, .role = *role})};
}

Result<Changes> set_secret(const Directory& directory, Secret secret) {
  const std::string& project = secret.id.project;
  TRY(require_project(directory, project));
  if (!directory.secrets.contains(secret.id) &&
      secrets_of(directory, project).size() >= kSecretsMax)
    return Error{Code::exhausted, format("{} has {} secrets; remove some first with `lockstep "
                                         "secret rm`",
                                         project, kSecretsMax)};
  return Changes{put(std::move(secret))};
}

Result<Changes> remove_secret(const Directory& directory, const SecretId& id) {
  const auto found = directory.secrets.find(id);
  if (found != directory.secrets.end()) return Changes{removed(found->second)};
  return Error{Code::not_found,
               format("the project {} has no secret {}; `lockstep secret ls --project {}` lists "
                      "them",
                      id.project, id.name, id.project)};
}

Result<Changes> add_token(const Directory& directory, const NewToken& token, const TokenText& text,
                          Time now) {
  const User& user = *TRY(require_user(directory, token.user));
  TRY(check_token_name(token.name));
  if (!token.project.empty()) TRY(require_project(directory, token.project));
  if (!token.project.empty() && !user.admin &&
      !directory.members.contains({token.project, token.user}))
    return Error{Code::invalid,
                 format("{} is no member of the project {}", token.user, token.project)};
  if (token.ends && *token.ends <= now)
    return Error{Code::invalid, "expires: the token would have ended already"};
  Changes changes;
  std::size_t count = 0;
  for (const Token* known : tokens_of(directory, token.user))
    if (known->ends && *known->ends + kEndedTokenKept <= now)
      changes.push_back(removed(*known));
    else if (!known->ends || *known->ends > now)
      ++count;
  if (count >= kTokensMax)
    return Error{Code::exhausted,
                 format("{} has {} tokens; revoke some first with `lockstep token revoke`",
                        token.user, count)};
  changes.push_back(put(Token{.id = text.id,
                              .secret_hash = secret_hash(text),
                              .user = token.user,
                              .name = token.name,
                              .project = token.project,
                              .role = token.role,
                              .created = now,
                              .ends = token.ends,
                              .parent = token.parent}));
  return changes;
}

Result<Changes> revoke_token(const Directory& directory, std::string_view id) {
  const auto token = directory.tokens.find(id);
  if (token == directory.tokens.end())
    return Error{Code::not_found, "there is no token with this id; `lockstep token ls` lists them"};
  Changes changes;
  remove_with_children(directory, token->second, changes);
  return changes;
}

}  // namespace lockstep::identity

#include "platform/server/people/people_views.h"

#include "base/format.h"

namespace lockstep::server {

api::UserView user_view(const identity::Directory& directory, const identity::User& user) {
  api::UserView view{.name = user.name,
                     .kind = user.kind,
                     .project = user.project,
                     .admin = user.admin,
                     .disabled = user.disabled,
                     .has_password = !user.password_hash.empty(),
                     .oidc_subject = user.oidc_subject,
                     .created = user.created,
                     .tokens = static_cast<int>(tokens_of(directory, user.name).size()),
                     .projects = {}};
  for (const identity::Member* member : memberships_of(directory, user.name))
    view.projects[member->id.project] = member->role;
  return view;
}

api::UserList user_list(const identity::Directory& directory) {
  api::UserList list;
  for (const auto& [name, user] : directory.users)
    if (!user.removed) list.users.push_back(user_view(directory, user));
  return list;
}

api::ProjectView project_view(const identity::Directory& directory,
                              const identity::Project& project) {
  api::ProjectView view{
      .name = project.name, .owner = project.owner, .created = project.created, .members = {}};
  for (const identity::Member* member : members_of(directory, project.name)) {
    const identity::User* user = find_user(directory, member->id.user);
    view.members.push_back({.user = member->id.user,
                            .kind = user == nullptr ? identity::UserKind::person : user->kind,
                            .role = member->role});
  }
  return view;
}

api::ProjectList project_list(const identity::Directory& directory,
                              const identity::Bearer& bearer) {
  api::ProjectList list;
  for (const auto& [name, project] : directory.projects)
    if (can_read(directory, bearer, name))
      list.projects.push_back(project_view(directory, project));
  return list;
}

api::TokenView token_view(const identity::Token& token, Time now) {
  return {.id = token.id,
          .user = token.user,
          .name = token.name,
          .project = token.project,
          .role = token.role,
          .created = token.created,
          .ends = token.ends,
          .ended = token.ends && *token.ends <= now,
          .last_used = token.last_used};
}

api::AuditView audit_view(const model::AuditRecord& record) {
  return {.id = record.id,
          .time = record.time,
          .user = record.user,
          .token = record.token,
          .from = record.address,
          .action = record.action,
          .target = record.target,
          .project = record.project,
          .before = record.before,
          .after = record.after,
          .refused = record.refused};
}

std::string summary(const identity::User& user) {
  std::string words = user.admin ? "admin" : std::string(name_of(user.kind));
  if (!user.project.empty()) words += " of " + user.project;
  return user.disabled ? words + ", disabled" : words;
}

std::string summary(const identity::Token& token) {
  std::string words = "of " + token.user;
  if (!token.name.empty()) words += ", named " + token.name;
  if (!token.project.empty()) words += ", in " + token.project;
  if (token.role) words += format(", at most {}", name_of(*token.role));
  return token.ends ? words + ", until " + text(*token.ends) : words;
}

}  // namespace lockstep::server

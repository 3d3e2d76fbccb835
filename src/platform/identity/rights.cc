#include "platform/identity/rights.h"

#include <algorithm>

#include "base/format.h"

namespace lockstep::identity {
namespace {

bool has_bounds(const Bearer& bearer) { return !bearer.project.empty() || bearer.role; }

// An admin has it in each project, so also in those that no row has.
bool has_role_somewhere(const Directory& directory, const Bearer& bearer, Role least) {
  const User* user = find_user(directory, bearer.user);
  if (user == nullptr || user->disabled) return false;
  if (!bearer.project.empty() || user->admin)
    return role_in(directory, bearer, bearer.project) >= least;
  return std::ranges::any_of(memberships_of(directory, bearer.user), [&](const Member* member) {
    return role_in(directory, bearer, member->id.project) >= least;
  });
}

bool has_role(const Directory& directory, const Bearer& bearer, Role least, const Target& target) {
  return target.project.empty() ? has_role_somewhere(directory, bearer, least)
                                : role_in(directory, bearer, target.project) >= least;
}

bool may_control(const Directory& directory, const Bearer& bearer, const Target& target) {
  const auto role = role_in(directory, bearer, target.project);
  return role == Role::manager || (role == Role::member && target.owner == bearer.user);
}

// An admin has it by its own role in the project only: a shell acts as the run's user.
bool may_open_shell(const Directory& directory, const Bearer& bearer, const Target& target) {
  const auto role = role_in(directory, bearer, target.project);
  if (target.owner.empty() || !role || *role < Role::member) return false;
  if (target.owner == bearer.user) return true;
  const auto member = directory.members.find({std::string(target.project), bearer.user});
  const User* owner = find_user(directory, target.owner);
  return role == Role::manager && member != directory.members.end() &&
         member->second.role == Role::manager && owner != nullptr &&
         owner->kind == UserKind::service;
}

bool is_person(const Directory& directory, const Bearer& bearer) {
  const User* user = find_user(directory, bearer.user);
  return user != nullptr && user->kind == UserKind::person;
}

std::string_view needed(Action action) {
  switch (action) {
    case Action::none:
    case Action::read_cluster:
      return "a user that is not disabled";
    case Action::read_run:
      return "a viewer of the project";
    case Action::submit_run:
      return "a member of the project";
    case Action::control_run:
      return "a manager of the project, or the user that submitted the run";
    case Action::open_shell:
      return "the user that submitted the run, or for a run of a service account a manager of the "
             "project";
    case Action::manage_project:
      return "a manager of the project";
    case Action::read_audit:
      return "an admin, or a manager of a project";
    case Action::manage_self:
      return "a person, with a token that has no project and no role";
    case Action::manage_cluster:
    case Action::manage_users:
      return "an admin, with a token that has no project and no role";
  }
  return "";
}

}  // namespace

Bearer bearer_of(const Token& token) {
  return {.user = token.user, .token = token.id, .project = token.project, .role = token.role};
}

std::optional<Role> role_in(const Directory& directory, const Bearer& bearer,
                            std::string_view project) {
  const User* user = find_user(directory, bearer.user);
  if (user == nullptr || user->disabled) return std::nullopt;
  if (!bearer.project.empty() && bearer.project != project) return std::nullopt;
  Role role = Role::manager;
  if (!user->admin) {
    const auto member = directory.members.find({std::string(project), bearer.user});
    if (member == directory.members.end()) return std::nullopt;
    role = member->second.role;
  }
  return bearer.role ? std::min(role, *bearer.role) : role;
}

bool may(const Directory& directory, const Bearer& bearer, Action action, const Target& target) {
  if (action != Action::none && !is_active(directory, bearer.user)) return false;
  switch (action) {
    case Action::none:
    case Action::read_cluster:
      return true;
    case Action::read_run:
      return has_role(directory, bearer, Role::viewer, target);
    case Action::submit_run:
      return has_role(directory, bearer, Role::member, target);
    case Action::control_run:
      return may_control(directory, bearer, target);
    case Action::open_shell:
      return may_open_shell(directory, bearer, target);
    case Action::manage_project:
      return role_in(directory, bearer, target.project) == Role::manager;
    case Action::read_audit:
      return has_role_somewhere(directory, bearer, Role::manager);
    case Action::manage_self:
      return is_person(directory, bearer) && !has_bounds(bearer);
    case Action::manage_cluster:
    case Action::manage_users:
      return is_admin(directory, bearer);
  }
  return false;
}

bool can_read(const Directory& directory, const Bearer& bearer, std::string_view project) {
  return role_in(directory, bearer, project).has_value();
}

bool is_admin(const Directory& directory, const Bearer& bearer) {
  const User* user = find_user(directory, bearer.user);
  return user != nullptr && user->admin && !user->disabled && !has_bounds(bearer);
}

std::string default_project(const Directory& directory, const Bearer& bearer) {
  if (!bearer.project.empty()) return bearer.project;
  if (role_in(directory, bearer, kSharedProject) >= Role::member)
    return std::string(kSharedProject);
  const User* user = find_user(directory, bearer.user);
  return user == nullptr || user->project.empty() ? bearer.user : user->project;
}

Result<std::string> project_of_submission(const Directory& directory, const Bearer& bearer,
                                          const std::string& wanted) {
  const std::string project =
      wanted == kSharedProject ? default_project(directory, bearer) : wanted;
  const Target target{.project = project};
  if (may(directory, bearer, Action::submit_run, target)) return project;
  return Error{Code::denied, refusal(bearer, Action::submit_run, target)};
}

std::string readable_project(const Directory& directory, const Bearer& bearer,
                             const std::string& name) {
  return name == kSharedProject && !can_read(directory, bearer, name)
             ? default_project(directory, bearer)
             : name;
}

std::string refusal(const Bearer& bearer, Action action, const Target& target) {
  return format("{} may not do this{}: it needs {}", bearer.user,
                target.project.empty() ? "" : format(" in the project {}", target.project),
                needed(action));
}

}  // namespace lockstep::identity

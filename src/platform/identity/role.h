// Roles, and the actions for which a route asks.
#pragma once

#include <string_view>

#include "text/record.h"

namespace lockstep::identity {

enum class UserKind { person, service };
constexpr auto enum_names(UserKind) {
  return names<UserKind>({{UserKind::person, "person"}, {UserKind::service, "service"}});
}

// In a project. A later one includes those before.
enum class Role { viewer, member, manager };
constexpr auto enum_names(Role) {
  return names<Role>(
      {{Role::viewer, "viewer"}, {Role::member, "member"}, {Role::manager, "manager"}});
}

enum class Action {
  none,            // the caller is no user: its own token is its right
  read_cluster,    // hosts, queue, limits; each user
  read_run,        // a viewer of its project
  submit_run,      // a member
  control_run,     // its own runs by a member, all by a manager
  open_shell,      // its own runs by a member, those of service accounts by a manager
  manage_project,  // its members and service accounts; a manager
  read_audit,      // an admin all of it, a manager that of its projects
  manage_self,     // its own tokens and password; a person, by a token without bounds
  manage_cluster,  // hosts, limits, orphans; an admin
  manage_users,    // users and projects; an admin
};
constexpr auto enum_names(Action) {
  return names<Action>({{Action::none, "none"},
                        {Action::read_cluster, "read_cluster"},
                        {Action::read_run, "read_run"},
                        {Action::submit_run, "submit_run"},
                        {Action::control_run, "control_run"},
                        {Action::open_shell, "open_shell"},
                        {Action::manage_project, "manage_project"},
                        {Action::read_audit, "read_audit"},
                        {Action::manage_self, "manage_self"},
                        {Action::manage_cluster, "manage_cluster"},
                        {Action::manage_users, "manage_users"}});
}

}  // namespace lockstep::identity

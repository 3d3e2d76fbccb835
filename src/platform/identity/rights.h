// may(): what a user may do, by its roles and its token. The server asks it before each call, and
// the simulator before each request of its users.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "platform/identity/directory.h"

namespace lockstep::identity {

// A user, with the bounds of the token by which it calls.
struct Bearer {
  std::string user;
  std::string token{};         // its id; empty: the token in the daemon's folder
  std::string project{};       // it gives rights in this project only; empty: in all
  std::optional<Role> role{};  // the highest role that it gives; none: the user's

  bool operator==(const Bearer&) const = default;
};
Bearer bearer_of(const Token& token);

// The project, or the run of it, on which the action is.
struct Target {
  std::string_view project{};  // empty: none
  std::string_view owner{};    // the user that submitted the run; empty: no run
};

// The role in the project, by the rows of now; none: the project does not exist for it.
std::optional<Role> role_in(const Directory& directory, const Bearer& bearer,
                            std::string_view project);
// Without a project: read_run and submit_run in at least one.
bool may(const Directory& directory, const Bearer& bearer, Action action,
         const Target& target = {});

// May read the runs of the project.
bool can_read(const Directory& directory, const Bearer& bearer, std::string_view project);
// An admin, by a token without bounds.
bool is_admin(const Directory& directory, const Bearer& bearer);

// The project of a run that names none: that of the token, else the shared one if the user may
// start runs there, else its own, else the one of a service account.
std::string default_project(const Directory& directory, const Bearer& bearer);

// The project of a run that the bearer submits with this one; the shared one stands for
// default_project(). Code::denied: it may not start runs there.
Result<std::string> project_of_submission(const Directory& directory, const Bearer& bearer,
                                          const std::string& wanted);

// The project that a user means by this name: `default` is that of default_project() if the user
// may not read the shared one.
std::string readable_project(const Directory& directory, const Bearer& bearer,
                             const std::string& name);

// Why the action is refused, with the role that it needs.
std::string refusal(const Bearer& bearer, Action action, const Target& target);

}  // namespace lockstep::identity

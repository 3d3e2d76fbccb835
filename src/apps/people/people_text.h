// Text about users and their rights, which several commands print.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "platform/identity/role.h"

namespace lockstep::cli {

inline constexpr auto kRoles = "viewer|member|manager";

// The word is one of those with '|' between them.
bool is_action(std::string_view actions, std::string_view word);
// "demo (manager), lab (viewer)"; "-" without any.
std::string roles_text(const std::map<std::string, identity::Role>& roles);
// The error names the roles. Empty: none.
Result<std::optional<identity::Role>> role_option(const std::string& words);

}  // namespace lockstep::cli

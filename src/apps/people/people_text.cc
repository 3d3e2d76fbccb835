#include "apps/people/people_text.h"

#include <vector>

#include "base/format.h"
#include "text/convert.h"

namespace lockstep::cli {

bool is_action(std::string_view actions, std::string_view word) {
  const std::string within = format("|{}|", actions);
  return word.find('|') == std::string_view::npos && !word.empty() &&
         within.find(format("|{}|", word)) != std::string::npos;
}

std::string roles_text(const std::map<std::string, identity::Role>& roles) {
  std::vector<std::string> all;
  for (const auto& [project, role] : roles)
    all.push_back(format("{} ({})", project, name_of(role)));
  return all.empty() ? "-" : joined(all, ", ");
}

Result<std::optional<identity::Role>> role_option(const std::string& words) {
  if (words.empty()) return std::optional<identity::Role>();
  auto role = parse_name<identity::Role>(words);
  if (!role) return std::move(role).error().with_context("--role");
  return std::optional(*role);
}

}  // namespace lockstep::cli

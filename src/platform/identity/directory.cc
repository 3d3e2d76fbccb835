#include "platform/identity/directory.h"

#include <algorithm>

#include "base/format.h"

namespace lockstep::identity {
namespace {

constexpr std::size_t kNameMax = 64;

bool is_letter_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
bool is_permitted(char c) { return is_letter_or_digit(c) || c == '.' || c == '_' || c == '-'; }

template <class Map, class Key, class Row>
void put(Map& map, const Key& key, const Row& row, bool removed) {
  if (removed)
    map.erase(key);
  else
    map.insert_or_assign(key, row);
}

void put(Directory& directory, const User& user, bool removed) {
  put(directory.users, user.name, user, removed);
}
void put(Directory& directory, const Project& project, bool removed) {
  put(directory.projects, project.name, project, removed);
}
void put(Directory& directory, const Member& member, bool removed) {
  put(directory.members, member.id, member, removed);
}
void put(Directory& directory, const Token& token, bool removed) {
  put(directory.tokens, token.id, token, removed);
}
void put(Directory& directory, const Secret& secret, bool removed) {
  put(directory.secrets, secret.id, secret, removed);
}

}  // namespace

void apply(Directory& directory, const Changes& changes) {
  for (const Change& change : changes)
    std::visit([&](const auto& row) { put(directory, row, change.removed); }, change.row);
}

const User* find_user(const Directory& directory, std::string_view name) {
  const auto found = directory.users.find(name);
  return found == directory.users.end() || found->second.removed ? nullptr : &found->second;
}

bool is_active(const Directory& directory, std::string_view user) {
  const User* found = find_user(directory, user);
  return found != nullptr && !found->disabled;
}

Result<const User*> require_user(const Directory& directory, std::string_view name) {
  if (const User* user = find_user(directory, name)) return user;
  TRY(check_identity_name("user", name));
  return Error{Code::not_found, format("there is no user {}; `lockstep user ls` lists them", name)};
}

Result<const Project*> require_project(const Directory& directory, std::string_view name) {
  const auto found = directory.projects.find(name);
  if (found != directory.projects.end()) return &found->second;
  return no_such_project(name);
}

Error no_such_project(std::string_view name) {
  return {Code::not_found,
          format("there is no project {}; `lockstep project ls` lists them", name)};
}

std::vector<const Member*> members_of(const Directory& directory, std::string_view project) {
  std::vector<const Member*> members;
  for (auto member = directory.members.lower_bound({std::string(project), ""});
       member != directory.members.end() && member->first.project == project; ++member)
    members.push_back(&member->second);
  return members;
}

std::vector<const Member*> memberships_of(const Directory& directory, std::string_view user) {
  std::vector<const Member*> memberships;
  for (const auto& [id, member] : directory.members)
    if (id.user == user) memberships.push_back(&member);
  return memberships;
}

std::vector<const Secret*> secrets_of(const Directory& directory, std::string_view project) {
  std::vector<const Secret*> secrets;
  for (auto secret = directory.secrets.lower_bound({std::string(project), ""});
       secret != directory.secrets.end() && secret->first.project == project; ++secret)
    secrets.push_back(&secret->second);
  return secrets;
}

std::vector<const Token*> tokens_of(const Directory& directory, std::string_view user) {
  std::vector<const Token*> tokens;
  for (const auto& [id, token] : directory.tokens)
    if (token.user == user) tokens.push_back(&token);
  std::ranges::stable_sort(tokens, {}, &Token::created);
  return tokens;
}

Result<void> check_identity_name(std::string_view what, std::string_view name) {
  if (!name.empty() && name.size() <= kNameMax && is_letter_or_digit(name.front()) &&
      std::ranges::all_of(name, is_permitted))
    return {};
  return Error{Code::invalid,
               format("{}: a name has 1 to {} of the characters a-z, 0-9, '.', '_' and '-', and "
                      "begins with a letter or digit",
                      what, kNameMax)};
}

std::string name_of_unix_user(std::string_view user) {
  std::string name;
  for (char c : user.substr(0, kNameMax)) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    name += is_permitted(c) ? c : '-';
  }
  if (name.empty()) return "admin";
  if (!is_letter_or_digit(name.front())) name.front() = 'u';
  return name;
}

}  // namespace lockstep::identity

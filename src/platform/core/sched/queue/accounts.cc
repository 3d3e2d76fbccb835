#include "platform/core/sched/queue/accounts.h"

namespace lockstep::sched {

std::size_t Accounts::Principals::principal_index(std::string_view name) {
  if (const auto known = by_name.find(name); known != by_name.end()) return known->second;
  by_name.emplace(name, all.size());
  all.push_back({std::string(name)});
  return all.size() - 1;
}

void Accounts::Principals::set(const std::map<std::string, int>& limits) {
  for (Principal& principal : all) principal.limit.reset();
  for (const auto& [name, most] : limits) all[principal_index(name)].limit = most;
}

Accounts::AccountId Accounts::account_id(std::string_view project, std::string_view user) {
  const ProjectAndUser account(projects_.principal_index(project), users_.principal_index(user));
  const auto next = static_cast<AccountId>(accounts_.size());
  const auto [known, is_new] = account_ids_.emplace(account, next);
  if (is_new) accounts_.push_back(account);
  return known->second;
}

std::optional<std::size_t> Accounts::project_number(std::string_view project) const {
  const auto known = projects_.by_name.find(project);
  return known == projects_.by_name.end() ? std::nullopt : std::optional(known->second);
}

void Accounts::set(const Limits& limits) {
  projects_.set(limits.project_devices);
  users_.set(limits.user_devices);
  limited_ = !limits.project_devices.empty() || !limits.user_devices.empty();
}

void Accounts::change_usage(AccountId account, std::int64_t devices) {
  const auto& [project, user] = at(account);
  projects_.all[project].devices_used += devices;
  users_.all[user].devices_used += devices;
}

std::optional<Accounts::ExceededLimit> Accounts::exceeded_limit(AccountId account,
                                                                std::int64_t devices) const {
  if (!limited_) return std::nullopt;
  const auto& [project, user] = at(account);
  const Principal& project_principal = projects_.all[project];
  const Principal& user_principal = users_.all[user];
  const auto refuses = [&](const Principal& principal) {
    return principal.limit && principal.devices_used + devices > *principal.limit;
  };
  const auto left = [](const Principal& principal) {
    return *principal.limit - principal.devices_used;
  };
  if (!refuses(project_principal) && !refuses(user_principal)) return std::nullopt;
  const bool by_user = refuses(user_principal) && (!refuses(project_principal) ||
                                                   left(user_principal) < left(project_principal));
  const Principal& principal = by_user ? user_principal : project_principal;
  return ExceededLimit{by_user, by_user ? user : project, principal.devices_used, *principal.limit};
}

bool Accounts::allows_both(AccountId first, std::int64_t devices, AccountId second,
                           std::int64_t more) const {
  if (!limited_) return true;
  const auto& [project, user] = at(first);
  const auto& [their_project, their_user] = at(second);
  const auto allows = [&](const Principal& principal, bool shared) {
    return !principal.limit ||
           principal.devices_used + devices + (shared ? more : 0) <= *principal.limit;
  };
  return allows(projects_.all[project], project == their_project) &&
         allows(users_.all[user], user == their_user);
}

const std::string& Accounts::principal_name(const ExceededLimit& refusal) const {
  return (refusal.by_user ? users_ : projects_).all[refusal.principal].name;
}

bool Accounts::applies_to(const ExceededLimit& refusal, AccountId account) const {
  const auto& [project, user] = at(account);
  return refusal.principal == (refusal.by_user ? user : project);
}

}  // namespace lockstep::sched

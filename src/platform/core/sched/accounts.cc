#include "platform/core/sched/accounts.h"

namespace lockstep {

std::size_t Accounts::Parties::number_of(const std::string& name) {
  const auto [known, is_new] = by_name.emplace(name, all.size());
  if (is_new) all.push_back({name});
  return known->second;
}

void Accounts::Parties::set(const std::map<std::string, int>& limits) {
  for (Party& party : all) party.most.reset();
  for (const auto& [name, most] : limits) all[number_of(name)].most = most;
}

Accounts::Number Accounts::number_of(const std::string& project, const std::string& user) {
  const std::pair account(projects_.number_of(project), users_.number_of(user));
  const auto [known, is_new] = numbers_.emplace(account, static_cast<Number>(accounts_.size()));
  if (is_new) accounts_.push_back(account);
  return known->second;
}

void Accounts::set(const Limits& limits) {
  projects_.set(limits.project_devices);
  users_.set(limits.user_devices);
  limited_ = !limits.project_devices.empty() || !limits.user_devices.empty();
}

void Accounts::add(Number account, std::int64_t devices) {
  const auto& [project, user] = accounts_[static_cast<std::size_t>(account)];
  projects_.all[project].held += devices;
  users_.all[user].held += devices;
}

std::optional<Accounts::Refusal> Accounts::refusal(Number account, std::int64_t devices) const {
  const auto& [project, user] = accounts_[static_cast<std::size_t>(account)];
  const Party& ours = projects_.all[project];
  const Party& his = users_.all[user];
  const auto refuses = [&](const Party& party) {
    return party.most && party.held + devices > *party.most;
  };
  const auto left = [](const Party& party) { return *party.most - party.held; };
  if (!refuses(ours) && !refuses(his)) return std::nullopt;
  const bool by_user = refuses(his) && (!refuses(ours) || left(his) < left(ours));
  const Party& party = by_user ? his : ours;
  return Refusal{by_user, by_user ? user : project, party.held, *party.most};
}

const std::string& Accounts::name_of(const Refusal& refusal) const {
  return (refusal.by_user ? users_ : projects_).all[refusal.party].name;
}

bool Accounts::counts(const Refusal& refusal, Number account) const {
  const auto& [project, user] = accounts_[static_cast<std::size_t>(account)];
  return refusal.party == (refusal.by_user ? user : project);
}

}  // namespace lockstep

#include "platform/core/sched/accounts.h"

namespace lockstep {

std::size_t Accounts::Parties::number_of(std::string_view name) {
  const std::size_t hash = hash_of(name);
  const auto is_it = [&](int slot) { return all[static_cast<std::size_t>(slot)].name == name; };
  if (const auto known = by_name.find(hash, is_it)) return static_cast<std::size_t>(*known);
  by_name.add(hash, static_cast<int>(all.size()));
  all.push_back({std::string(name), hash});
  return all.size() - 1;
}

void Accounts::Parties::set(const std::map<std::string, int>& limits) {
  for (Party& party : all) party.most.reset();
  for (const auto& [name, most] : limits) all[number_of(name)].most = most;
}

Accounts::Number Accounts::number_of(std::string_view project, std::string_view user) {
  const std::pair account(projects_.number_of(project), users_.number_of(user));
  const std::size_t hash = hash_of(projects_.all[account.first].hash, account.second);
  const auto is_it = [&](int slot) { return accounts_[static_cast<std::size_t>(slot)] == account; };
  if (const auto known = numbers_.find(hash, is_it)) return *known;
  const auto number = static_cast<Number>(accounts_.size());
  numbers_.add(hash, number);
  accounts_.push_back(account);
  return number;
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
  if (!limited_) return std::nullopt;
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

bool Accounts::allow(Number first, std::int64_t devices, Number second, std::int64_t more) const {
  if (!limited_) return true;
  const auto& [project, user] = accounts_[static_cast<std::size_t>(first)];
  const auto& [their_project, their_user] = accounts_[static_cast<std::size_t>(second)];
  const auto allows = [&](const Party& party, bool shared) {
    return !party.most || party.held + devices + (shared ? more : 0) <= *party.most;
  };
  return allows(projects_.all[project], project == their_project) &&
         allows(users_.all[user], user == their_user);
}

const std::string& Accounts::name_of(const Refusal& refusal) const {
  return (refusal.by_user ? users_ : projects_).all[refusal.party].name;
}

bool Accounts::counts(const Refusal& refusal, Number account) const {
  const auto& [project, user] = accounts_[static_cast<std::size_t>(account)];
  return refusal.party == (refusal.by_user ? user : project);
}

}  // namespace lockstep

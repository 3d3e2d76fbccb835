// Accounts: how many devices projects and users hold, and whether one more run may, by the limits.
// A run whose start would pass a limit is passed over and blocks nobody: the limit is not the
// queue's.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "platform/core/sched/plan.h"
#include "platform/core/sched/slot_index.h"

namespace lockstep {

class Accounts {
 public:
  // Of a project and a user, for as long as the accounts live.
  using Number = int;
  Number number_of(std::string_view project, std::string_view user);
  const std::string& project(Number account) const { return project_of(account).name; }
  std::size_t project_hash(Number account) const { return project_of(account).hash; }
  const std::string& user(Number account) const {
    return users_.all[accounts_[static_cast<std::size_t>(account)].second].name;
  }

  void set(const Limits& limits);
  void take(Number account, std::int64_t devices) { add(account, devices); }
  void give(Number account, std::int64_t devices) { add(account, -devices); }
  bool allows(Number account, std::int64_t devices) const { return !refusal(account, devices); }
  // Likewise of a first run, once a second one holds devices as well.
  bool allow(Number first, std::int64_t devices, Number second, std::int64_t more) const;

  // A limit that is in the way.
  struct Refusal {
    bool by_user = false;  // the user's, not the project's
    std::size_t party = 0;
    std::int64_t held = 0;
    std::int64_t most = 0;
  };
  // Of those in the way the one that has least left.
  std::optional<Refusal> refusal(Number account, std::int64_t devices) const;
  const std::string& name_of(const Refusal& refusal) const;
  // Whether what the account holds counts to that limit.
  bool counts(const Refusal& refusal, Number account) const;

 private:
  struct Party {
    std::string name;
    std::size_t hash = 0;  // of the name
    std::int64_t held = 0;
    std::optional<std::int64_t> most{};
  };
  struct Parties {
    std::vector<Party> all;
    SlotIndex by_name;
    std::size_t number_of(std::string_view name);
    void set(const std::map<std::string, int>& limits);
  };

  const Party& project_of(Number account) const {
    return projects_.all[accounts_[static_cast<std::size_t>(account)].first];
  }
  void add(Number account, std::int64_t devices);

  Parties projects_, users_;
  std::vector<std::pair<std::size_t, std::size_t>> accounts_;  // project and user
  SlotIndex numbers_;
  bool limited_ = false;
};

}  // namespace lockstep

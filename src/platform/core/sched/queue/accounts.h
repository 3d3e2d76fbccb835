// Accounts: how many devices projects and users hold, and whether the limits allow one more run. A
// run that would exceed a limit is skipped and blocks no other run.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "platform/core/sched/capacity/name_map.h"
#include "platform/core/sched/plan.h"

namespace lockstep::sched {

class Accounts {
 public:
  // Identifies a project and a user, for as long as the accounts live.
  using AccountId = int;
  AccountId account_id(std::string_view project, std::string_view user);
  const std::string& project(AccountId account) const { return project_of(account).name; }
  // A number for each project; none for a project without an account or a limit.
  std::size_t project_number(AccountId account) const { return at(account).first; }
  std::optional<std::size_t> project_number(std::string_view project) const;
  const std::string& user(AccountId account) const { return users_.all[at(account).second].name; }

  void set(const Limits& limits);
  void add_usage(AccountId account, std::int64_t devices) { change_usage(account, devices); }
  void remove_usage(AccountId account, std::int64_t devices) { change_usage(account, -devices); }
  bool allows(AccountId account, std::int64_t devices) const {
    return !exceeded_limit(account, devices);
  }
  // The same for the first run if the second one holds `more` devices as well.
  bool allows_both(AccountId first, std::int64_t devices, AccountId second,
                   std::int64_t more) const;

  // A limit that the run would exceed.
  struct ExceededLimit {
    bool by_user = false;  // limit of the user, not of the project
    std::size_t principal = 0;
    std::int64_t devices_used = 0;
    std::int64_t limit = 0;
  };
  // The exceeded limit with the fewest devices left.
  std::optional<ExceededLimit> exceeded_limit(AccountId account, std::int64_t devices) const;
  const std::string& principal_name(const ExceededLimit& refusal) const;
  // True if the account's devices count towards that limit.
  bool applies_to(const ExceededLimit& refusal, AccountId account) const;

 private:
  struct Principal {
    std::string name;
    std::int64_t devices_used = 0;
    std::optional<std::int64_t> limit{};
  };
  struct Principals {
    std::vector<Principal> all;
    NameMap<std::size_t> by_name;
    std::size_t principal_index(std::string_view name);
    void set(const std::map<std::string, int>& limits);
  };

  using ProjectAndUser = std::pair<std::size_t, std::size_t>;  // positions in `all`

  const ProjectAndUser& at(AccountId account) const {
    return accounts_[static_cast<std::size_t>(account)];
  }
  const Principal& project_of(AccountId account) const { return projects_.all[at(account).first]; }
  void change_usage(AccountId account, std::int64_t devices);

  Principals projects_, users_;
  std::vector<ProjectAndUser> accounts_;
  std::map<ProjectAndUser, AccountId> account_ids_;
  bool limited_ = false;
};

}  // namespace lockstep::sched

// People: the users of the cluster with their roles and tokens, and the gate that their calls pass:
// the decisions of the real daemon's (platform/identity). In half of the seeds admins change roles
// and tokens while runs go on.
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "platform/core/model/run.h"
#include "platform/identity/changes.h"
#include "platform/identity/rights.h"
#include "sim/checks/rights_checker.h"
#include "sim/faults/seeded_random.h"
#include "sim/sim_context.h"

namespace lockstep::sim {

inline constexpr std::array<std::string_view, 3> kUserNames = {"ann", "bob", "eve"};
inline constexpr std::array<std::string_view, 2> kProjects = {"demo", "other"};

class People {
 public:
  // A user by one of its tokens, which may be void.
  struct Caller {
    std::string user;
    std::string token;
  };

  People(SimContext& context, const model::State& durable, std::uint64_t seed);

  // Admins change roles for so long.
  void begin(Duration span);

  Caller any_caller(std::string_view user);
  // Makes a submission the caller's own, as the daemon does. Code::denied.
  Result<void> admit_submission(const Caller& caller, const std::string& request_id,
                                model::RunSpec& spec, model::Origin& origin);
  // A user, mostly the run's own, stops or resumes the run. Code::denied.
  Result<void> admit_control(const model::RunId& run);

  RightsChecker& checker() { return checker_; }

 private:
  struct Kind {
    Duration mean;  // between two of them
    void (People::*act)();
  };
  void plan(const Kind& kind, Duration until);

  void give_a_role();
  void disable_or_enable_a_user();
  void make_or_take_an_admin();
  void make_a_token();
  void revoke_a_token();

  void give_role(const std::string& project, const std::string& user,
                 std::optional<identity::Role> role);
  void make_token(const std::string& user, const std::string& project,
                  std::optional<identity::Role> role, std::optional<Time> ends);
  Result<void> decide_control(const Caller& caller, const model::Run& run) const;
  // False: the change is refused.
  bool change(const std::string& what, const Result<identity::Changes>& changes);
  Result<identity::Bearer> bearer_of(const Caller& caller) const;
  std::string any_user() { return std::string(random_.one_of(kUserNames)); }
  std::string any_project() { return std::string(random_.one_of(kProjects)); }

  SimContext& context_;
  const model::State& durable_;
  SeededRandom random_;
  const bool changes_;  // else each user stays a member of each project
  identity::Directory directory_;
  RightsChecker checker_;
  std::map<std::string, std::vector<std::string>> tokens_;  // of each user, also void ones
};

}  // namespace lockstep::sim

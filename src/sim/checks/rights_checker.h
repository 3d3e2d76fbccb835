// RightsChecker: the rights of users, stated a second time, from what admins did. It checks each
// decision of the gate, and that each run has a user that was allowed to start it.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "platform/core/model/state.h"
#include "platform/identity/role.h"
#include "sim/sim_context.h"

namespace lockstep::sim {

class RightsChecker {
 public:
  RightsChecker(SimContext& context, const model::State& durable)
      : context_(context), durable_(durable) {}

  struct TokenFacts {
    std::string user;
    std::string project{};  // empty: it is for all projects of its user
    std::optional<identity::Role> role{};
    std::optional<Time> ends{};
  };

  // Admins did this. No role: the user is no member any more.
  void role_given(const std::string& project, const std::string& user,
                  std::optional<identity::Role> role);
  void user_disabled(const std::string& user, bool disabled);
  void admin_made(const std::string& user, bool admin);
  void token_made(const std::string& token, TokenFacts facts) { tokens_[token] = std::move(facts); }
  void token_revoked(const std::string& token) { tokens_.erase(token); }

  // The gate has admitted the call with this token, or refused it.
  void check_submission(const std::string& token, const std::string& request_id,
                        const std::string& project, bool admitted);
  void check_control(const std::string& token, const model::Run& run, bool admitted);
  // Each run was submitted by a call that was admitted, and has the user of its token.
  void check_runs() const;

 private:
  struct Submission {
    std::string user;
    std::string project;
    bool operator==(const Submission&) const = default;
  };

  // A run that was adopted from another store has no request id.
  bool is_admitted(const model::Run& run) const;
  // Null: the token gives no rights now.
  const TokenFacts* valid(const std::string& token) const;
  std::optional<identity::Role> role_of(const TokenFacts& token, const std::string& project) const;
  void check_decision(const std::string& what, bool admitted, bool rightly) const;

  SimContext& context_;
  const model::State& durable_;
  std::map<std::pair<std::string, std::string>, identity::Role> roles_;  // by project and user
  std::set<std::string> disabled_;
  std::set<std::string> admins_;
  std::map<std::string, TokenFacts> tokens_;
  std::map<std::string, Submission> admitted_;  // by request id
};

}  // namespace lockstep::sim

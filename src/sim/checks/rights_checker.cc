#include "sim/checks/rights_checker.h"

#include <algorithm>

namespace lockstep::sim {

using identity::Role;

void RightsChecker::role_given(const std::string& project, const std::string& user,
                               std::optional<Role> role) {
  if (role)
    roles_[{project, user}] = *role;
  else
    roles_.erase({project, user});
}

void RightsChecker::user_disabled(const std::string& user, bool disabled) {
  if (disabled)
    disabled_.insert(user);
  else
    disabled_.erase(user);
  admin_made(user, admins_.contains(user));
}

void RightsChecker::admin_made(const std::string& user, bool admin) {
  if (admin)
    admins_.insert(user);
  else
    admins_.erase(user);
  const bool some = std::ranges::any_of(
      admins_, [&](const std::string& name) { return !disabled_.contains(name); });
  if (!some)
    context_.report_violation("the cluster has no admin any more, after a change of " + user);
}

const RightsChecker::TokenFacts* RightsChecker::valid(const std::string& token) const {
  const auto found = tokens_.find(token);
  if (found == tokens_.end()) return nullptr;
  const TokenFacts& facts = found->second;
  const bool ended = facts.ends && *facts.ends <= context_.clock.now();
  return ended || disabled_.contains(facts.user) ? nullptr : &facts;
}

std::optional<Role> RightsChecker::role_of(const TokenFacts& token,
                                           const std::string& project) const {
  if (!token.project.empty() && token.project != project) return std::nullopt;
  const auto member = roles_.find({project, token.user});
  std::optional<Role> role;
  if (member != roles_.end()) role = member->second;
  if (admins_.contains(token.user)) role = Role::manager;
  return role && token.role ? std::min(*role, *token.role) : role;
}

void RightsChecker::check_decision(const std::string& what, bool admitted, bool rightly) const {
  if (admitted != rightly)
    context_.report_violation(format("{} is {} wrongly", what, admitted ? "admitted" : "refused"));
}

void RightsChecker::check_submission(const std::string& token, const std::string& request_id,
                                     const std::string& project, bool admitted) {
  const TokenFacts* facts = valid(token);
  const bool rightly = facts != nullptr && role_of(*facts, project) >= Role::member;
  check_decision(format("the submission {} to {} by {}", request_id, project,
                        facts ? facts->user : "an invalid token"),
                 admitted, rightly);
  if (rightly) admitted_.try_emplace(request_id, Submission{facts->user, project});
}

void RightsChecker::check_control(const std::string& token, const model::Run& run, bool admitted) {
  const TokenFacts* facts = valid(token);
  bool rightly = false;
  if (facts) {
    const auto role = role_of(*facts, run.id.project);
    rightly = role == Role::manager || (role == Role::member && run.origin.user == facts->user);
  }
  check_decision(format("a call to stop or resume {} by {}", text(run.id),
                        facts ? facts->user : "an invalid token"),
                 admitted, rightly);
}

bool RightsChecker::is_admitted(const model::Run& run) const {
  const Submission own{run.origin.user, run.id.project};
  if (run.request_id.empty())
    return std::ranges::any_of(admitted_, [&](const auto& entry) { return entry.second == own; });
  const auto found = admitted_.find(run.request_id);
  return found != admitted_.end() && found->second == own;
}

void RightsChecker::check_runs() const {
  for (const auto& [id, run] : durable_.runs)
    if (!is_admitted(run))
      context_.report_violation(
          format("{} was not allowed to start {}", run.origin.user, text(id)));
}

}  // namespace lockstep::sim

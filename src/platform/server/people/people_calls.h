// PeopleCalls: the handlers of the routes about users, projects, tokens and the audit. The gate has
// checked the right to call; a handler checks what only the body says.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "platform/api/identity_routes.h"
#include "platform/core/model/state.h"
#include "platform/server/people/accounts.h"
#include "platform/server/route_call.h"

namespace lockstep::server {

class PeopleCalls {
 public:
  // All outlive this. `state` is the controller's.
  PeopleCalls(Accounts& accounts, const model::State& state, const Clock& clock)
      : accounts_(accounts), state_(state), clock_(clock) {}

  Result<api::WhoAmI> whoami(const RouteCall<api::kWhoAmI>& call);
  Result<api::UserList> users(const RouteCall<api::kUsers>& call);
  Result<api::UserView> add_user(const RouteCall<api::kAddUser>& call);
  Result<api::UserView> change_user(const RouteCall<api::kChangeUser>& call);
  Result<api::UserList> remove_user(const RouteCall<api::kRemoveUser>& call);
  Result<api::ProjectList> projects(const RouteCall<api::kProjects>& call);
  Result<api::ProjectView> add_project(const RouteCall<api::kAddProject>& call);
  Result<api::ProjectList> remove_project(const RouteCall<api::kRemoveProject>& call);
  Result<api::ProjectView> set_member(const RouteCall<api::kSetMember>& call);
  Result<api::UserView> add_service(const RouteCall<api::kAddService>& call);
  Result<api::TokenList> tokens(const RouteCall<api::kTokens>& call);
  Result<api::NewTokenView> add_token(const RouteCall<api::kAddToken>& call);
  Result<api::TokenView> revoke_token(const RouteCall<api::kRevokeToken>& call);
  Result<api::AuditList> audit(const RouteCall<api::kAudit>& call);

 private:
  const identity::Directory& directory() const { return accounts_.directory(); }
  Result<void> check_tokens_of(const identity::Bearer& bearer, const std::string& user) const;

  Accounts& accounts_;
  const model::State& state_;
  const Clock& clock_;
};

}  // namespace lockstep::server

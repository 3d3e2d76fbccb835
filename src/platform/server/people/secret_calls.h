// SecretCalls: the handlers of the routes about secrets. The gate has checked the right to call.
#pragma once

#include "base/clock.h"
#include "base/result.h"
#include "platform/api/secret_routes.h"
#include "platform/core/model/run.h"
#include "platform/host/keys.h"
#include "platform/server/people/accounts.h"
#include "platform/server/route_call.h"

namespace lockstep::server {

class SecretCalls {
 public:
  // All outlive this.
  SecretCalls(Accounts& accounts, const host::Keys& keys, const Clock& clock)
      : accounts_(accounts), keys_(keys), clock_(clock) {}

  Result<api::SecretList> list(const RouteCall<api::kSecrets>& call);
  Result<api::SecretView> set(const RouteCall<api::kSetSecret>& call);
  Result<api::SecretList> remove(const RouteCall<api::kRemoveSecret>& call);

  // Code::invalid: the project of the run does not have a secret that the run names.
  Result<void> check_secrets_of(const model::RunSpec& spec) const;

 private:
  const identity::Directory& directory() const { return accounts_.directory(); }
  api::SecretList list_of(const std::string& project) const;

  Accounts& accounts_;
  const host::Keys& keys_;
  const Clock& clock_;
};

// The value of the project's secret, for the launch of a run. Code::not_found: there is none.
Result<std::string> secret_value(store::IdentityStore& store, const host::Keys& keys,
                                 const std::string& project, const std::string& secret);

}  // namespace lockstep::server

// Gate: from the head of a request, which caller it has and whether that may call the route.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "net/http/http.h"
#include "platform/api/route.h"
#include "platform/controller/controller.h"
#include "platform/server/people/accounts.h"
#include "platform/server/principal.h"

namespace lockstep::server {

class Gate {
 public:
  // All outlive this.
  Gate(const host::Keys& keys, controller::Controller& controller, Accounts& accounts,
       const Clock& clock)
      : keys_(keys), controller_(controller), accounts_(accounts), clock_(clock) {}

  // The caller, or the answer that refuses it. A run that the caller may not read is not found. The
  // project `default` of the path of a run or a model becomes the caller's own if it may not read
  // that one.
  std::variant<Principal, net::HttpResponse> admit(const net::HttpRequest& request,
                                                   const api::Route& route,
                                                   std::vector<std::string>& path_parameters);
  // A rank by its own token, for MLflow's API only.
  std::optional<Principal> admit_rank(const net::HttpRequest& request) const;

 private:
  // Code::not_found: it may not know of the run or the project.
  Result<void> check_right(const Principal& caller, const api::Route& route,
                           const std::vector<std::string>& path_parameters);
  Result<void> check_run(const identity::Bearer& bearer, const api::Route& route,
                         const model::RunId& run);

  const host::Keys& keys_;
  controller::Controller& controller_;
  Accounts& accounts_;
  const Clock& clock_;
};

// A record of the caller's call of the route, at this time, with nothing of its target yet.
model::AuditRecord record_of(const Principal& caller, const api::Route& route, Time now);
// The same of a call that was refused; `refusal` is Code::denied or Code::not_found.
model::AuditRecord refusal_record(const Principal& caller, const api::Route& route,
                                  const std::vector<std::string>& path_parameters,
                                  const Error& refusal, Time now);

}  // namespace lockstep::server

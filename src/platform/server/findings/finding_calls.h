// FindingCalls: the handlers of the routes about findings and the use of devices.
#pragma once

#include "base/result.h"
#include "platform/api/routes.h"
#include "platform/server/calls/call_context.h"
#include "platform/server/findings/finding_watch.h"
#include "platform/server/route_call.h"

namespace lockstep::server {

class FindingCalls {
 public:
  // The context outlives this.
  explicit FindingCalls(const CallContext& context)
      : context_(context),
        watch_(context.controller(), context.setup().database, context.setup().clock) {}

  FindingWatch& watch() { return watch_; }

  Result<api::FindingList> list(const RouteCall<api::kFindings>& call);
  Result<api::FindingList> of_run(const RouteCall<api::kRunFindings>& call);
  Result<api::DeviceUseList> device_use(const RouteCall<api::kDeviceUse>& call);

 private:
  Result<api::FindingList> page(store::FindingFilter filter, const api::FindingQuery& query);

  const CallContext& context_;
  FindingWatch watch_;
};

}  // namespace lockstep::server

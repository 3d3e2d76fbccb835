// OperatorCalls: the handlers of the routes about the cluster: map, hosts, limits and orphans.
#pragma once

#include "base/result.h"
#include "platform/api/routes.h"
#include "platform/server/calls/call_context.h"
#include "platform/server/host_calls.h"
#include "platform/server/route_call.h"

namespace lockstep::server {

class OperatorCalls {
 public:
  // All outlive this.
  OperatorCalls(const CallContext& context, HostCalls& host_calls)
      : context_(context), host_calls_(host_calls) {}

  Result<map::ClusterMap> map(const RouteCall<api::kMap>& call);
  Result<map::ClusterMap> set_measured(const RouteCall<api::kSetMeasured>& call);
  Result<api::HostList> list_hosts(const RouteCall<api::kHosts>& call);
  Result<api::HostList> set_host(const RouteCall<api::kSetHost>& call);
  Result<api::JoinTokenAnswer> host_token(const RouteCall<api::kHostToken>& call);
  Result<api::HostList> remove_host(const RouteCall<api::kRemoveHost>& call);
  Result<api::HostList> declare_host_dead(const RouteCall<api::kHostDead>& call);
  Result<api::HostList> label_host(const RouteCall<api::kHostLabels>& call);
  Result<api::LimitList> limits(const RouteCall<api::kLimits>& call);
  Result<api::LimitList> set_limit(const RouteCall<api::kSetLimit>& call);
  Result<api::OrphanList> orphans(const RouteCall<api::kOrphans>& call);
  Result<api::OrphanList> stop_orphan(const RouteCall<api::kStopOrphan>& call);
  Result<api::RunView> adopt_orphan(const RouteCall<api::kAdoptOrphan>& call);

 private:
  const CallContext& context_;
  HostCalls& host_calls_;
};

}  // namespace lockstep::server

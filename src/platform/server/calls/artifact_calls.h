// ArtifactCalls: the handlers of the routes about the artifacts of runs (docs/design/artifacts.md).
// A content that comes in parts waits for its next part for some minutes.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/result.h"
#include "base/units.h"
#include "net/loop.h"
#include "platform/api/routes.h"
#include "platform/artifacts/artifacts.h"
#include "platform/core/model/ids.h"
#include "platform/server/calls/call_context.h"
#include "platform/server/route_call.h"

namespace lockstep::server {

class ArtifactCalls {
 public:
  // Both outlive this.
  ArtifactCalls(net::Loop& loop, const CallContext& context) : loop_(loop), context_(context) {}

  Result<api::ArtifactList> list(const RouteCall<api::kArtifacts>& call);
  Result<api::ArtifactPart> part(const RouteCall<api::kArtifactPart>& call);
  Result<api::ArtifactPartStored> add_part(const RouteCall<api::kAddArtifactPart>& call);

 private:
  struct Upload {
    std::string user;
    model::RunId run;
    std::string path;
    std::unique_ptr<artifacts::IncomingArtifact> content;
    net::Timer end{};  // removes it unless another part comes before
  };

  Result<Upload*> upload_of(const RouteCall<api::kAddArtifactPart>& call, const model::RunId& run);

  net::Loop& loop_;
  const CallContext& context_;
  std::map<std::string, Upload> uploads_;  // by user and id
};

}  // namespace lockstep::server

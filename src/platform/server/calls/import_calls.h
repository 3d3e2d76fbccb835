// ImportCalls: the handlers of the routes that bring what other programs have recorded into a run,
// and of images and histograms. docs/design/imports.md.
#pragma once

#include <string>

#include "base/result.h"
#include "platform/api/routes.h"
#include "platform/artifacts/artifacts.h"
#include "platform/artifacts/media.h"
#include "platform/server/calls/call_context.h"
#include "platform/server/route_call.h"

namespace lockstep::server {

class ImportCalls {
 public:
  explicit ImportCalls(const CallContext& context)  // outlives this
      : context_(context),
        artifacts_(context.setup().database, context.setup().home.folder / "artifacts",
                   "incoming-media"),
        media_(context.setup().database, artifacts_) {}

  Result<api::ImportedRun> import(const RouteCall<api::kImport>& call);
  // The same for a call of another form.
  Result<api::ImportedRun> run_for(const api::ImportRequest& request, const Principal& caller);
  Result<api::ImportedPointsAnswer> add_points(const RouteCall<api::kImportPoints>& call);
  Result<api::ItemsStored> add_items(const RouteCall<api::kAddItems>& call);
  Result<api::MediaStored> add_media(const RouteCall<api::kAddMedia>& call);
  Result<api::MediaStored> add_node_media(const RouteCall<api::kNodeMedia>& call);
  // The same for a call of another form.
  Result<api::MediaStored> store_media(const model::RunId& run, const api::MediaRequest& request);
  Result<api::ImageList> images(const RouteCall<api::kImages>& call);
  Result<api::ImageFile> image(const RouteCall<api::kImage>& call);
  Result<api::HistogramList> histograms(const RouteCall<api::kHistograms>& call);

 private:
  const CallContext& context_;
  artifacts::Artifacts artifacts_;
  artifacts::Media media_;
};

}  // namespace lockstep::server

// DocumentCalls: the handlers of the routes about documents.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "platform/api/routes.h"
#include "platform/server/calls/call_context.h"
#include "platform/server/route_call.h"
#include "platform/store/document_store.h"

namespace lockstep::server {

class DocumentCalls {
 public:
  // The context outlives this.
  explicit DocumentCalls(const CallContext& context)
      : context_(context), store_(context.setup().database) {}

  Result<api::DocumentList> list(const RouteCall<api::kDocuments>& call);
  Result<api::DocumentView> read(const RouteCall<api::kDocument>& call);
  Result<api::DocumentView> save(const RouteCall<api::kSaveDocument>& call);
  Result<api::DocumentView> remove(const RouteCall<api::kRemoveDocument>& call);

 private:
  bool may_read(const Principal& caller, const model::Document& document) const;
  Result<void> check_may_change(const Principal& caller, const model::Document& document) const;
  // Code::not_found also if the caller may not read it.
  Result<model::Document> find(const Principal& caller, const std::string& id);
  // Its user's document of the same kind, project and name.
  Result<std::optional<model::Document>> same_as(const model::Document& document);
  Result<api::DocumentView> add(const RouteCall<api::kSaveDocument>& call);
  Result<api::DocumentView> change(const RouteCall<api::kSaveDocument>& call, std::int64_t id);
  api::DocumentView view(const Principal& caller, model::Document document) const;

  const CallContext& context_;
  store::DocumentStore store_;
};

}  // namespace lockstep::server

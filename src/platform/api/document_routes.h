// The routes about documents: saved views and reports.
#pragma once

#include "platform/api/document_messages.h"
#include "platform/api/route.h"

namespace lockstep::api {

inline constexpr TypedRoute<DocumentQuery, None, DocumentList> kDocuments{
    "GET",
    "/api/v1/documents",
    Action::read_cluster,
    RouteErrors::none,
    "",
    "DocumentList",
    "the caller's views, or the reports that it may read"};
inline constexpr TypedRoute<None, None, DocumentView> kDocument{"GET",
                                                                "/api/v1/documents/{document}",
                                                                Action::read_cluster,
                                                                RouteErrors::run_not_found,
                                                                "",
                                                                "DocumentView",
                                                                "a view or a report with its text"};
inline constexpr TypedRoute<None, SaveDocumentRequest, DocumentView> kSaveDocument{
    "POST",
    "/api/v1/documents",
    {Action::read_cluster, "document.save"},
    RouteErrors::run_not_found_or_storage_full,
    "SaveDocumentRequest",
    "DocumentView",
    "save a new view or report, or replace one"};
inline constexpr TypedRoute<None, None, DocumentView> kRemoveDocument{
    "POST",
    "/api/v1/documents/{document}/remove",
    {Action::read_cluster, "document.remove"},
    RouteErrors::run_not_found_or_storage_full,
    "",
    "DocumentView",
    "remove a view or a report; answers with what it was"};

}  // namespace lockstep::api

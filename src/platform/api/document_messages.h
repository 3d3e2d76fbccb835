// Messages about documents: saved views and reports; see messages.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "platform/core/model/document.h"
#include "text/record.h"

namespace lockstep::api {

struct DocumentQuery {
  model::DocumentKind kind = model::DocumentKind::view;
  std::optional<std::string> project{};

  static constexpr auto fields() {
    return record<DocumentQuery>(
        required(field("kind", &DocumentQuery::kind, "views or reports")),
        field("project", &DocumentQuery::project, "only reports of this project"));
  }
};

struct DocumentView {
  std::int64_t id = 0;
  model::DocumentKind kind = model::DocumentKind::view;
  std::string project;
  std::string user;
  std::string name;
  std::string text;
  Time changed{};
  std::int64_t version = 0;
  bool may_change = false;

  static constexpr auto fields() {
    return record<DocumentView>(
        field("id", &DocumentView::id, "its number"),
        field("kind", &DocumentView::kind,
              "view: of a table of runs, of its user alone; report: Markdown with charts, of a "
              "project"),
        field("project", &DocumentView::project, "of a report; empty: of a view"),
        field("user", &DocumentView::user, "the user that made it"),
        field("name", &DocumentView::name, "its name"),
        field("text", &DocumentView::text, "its content; in lists empty for reports"),
        field("changed", &DocumentView::changed, "when it was last saved"),
        field("version", &DocumentView::version, "grows with each change"),
        field("may_change", &DocumentView::may_change, "the caller may save and remove it"));
  }
};

struct DocumentList {
  std::vector<DocumentView> documents;

  static constexpr auto fields() {
    return record<DocumentList>(field("documents", &DocumentList::documents,
                                      "at most 1,000; those that changed last come first"));
  }
};

struct SaveDocumentRequest {
  std::optional<std::int64_t> id{};
  model::DocumentKind kind = model::DocumentKind::view;
  std::optional<std::string> project{};
  std::string name;
  std::string text;
  std::optional<std::int64_t> version{};

  static constexpr auto fields() {
    return record<SaveDocumentRequest>(
        field("id", &SaveDocumentRequest::id, "the document to replace; absent: a new one"),
        required(field("kind", &SaveDocumentRequest::kind, "view or report")),
        field("project", &SaveDocumentRequest::project, "of a report; of a view it is absent"),
        required(field("name", &SaveDocumentRequest::name, "its name, at most 200 bytes")),
        required(field("text", &SaveDocumentRequest::text,
                       "its content; at most 4 KiB of a view and 256 KiB of a report")),
        field("version", &SaveDocumentRequest::version,
              "the version that the caller has changed; absent: any"));
  }
};

}  // namespace lockstep::api

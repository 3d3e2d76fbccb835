// Document: a text that users keep in the daemon for its page: a view of runs, or a report.
#pragma once

#include <cstdint>
#include <string>

#include "base/units.h"
#include "text/record.h"

namespace lockstep::model {

enum class DocumentKind {
  view,    // the query and columns of a table of runs; of its user alone
  report,  // Markdown with charts; all that may read its project read it
};
constexpr auto enum_names(DocumentKind) {
  return names<DocumentKind>({{DocumentKind::view, "view"}, {DocumentKind::report, "report"}});
}

struct Document {
  std::int64_t id = 0;  // given by the store; later documents have higher ones
  DocumentKind kind = DocumentKind::view;
  std::string project{};  // of a report; empty: of a view
  std::string user{};     // the one that made it
  std::string name{};
  std::string text{};
  Time changed{};
  std::int64_t version = 1;  // grows with each change

  bool operator==(const Document&) const = default;
};

}  // namespace lockstep::model

// DocumentStore: the views and reports that users keep in the daemon.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "platform/core/model/audit_record.h"
#include "platform/core/model/document.h"
#include "platform/store/database.h"

namespace lockstep::store {

struct DocumentFilter {
  model::DocumentKind kind = model::DocumentKind::view;
  std::optional<std::string> user{};
  std::optional<std::vector<std::string>> projects{};  // only of these
  int limit = 1'000;
};

class DocumentStore {
 public:
  explicit DocumentStore(Database& database) : database_(database) {}  // must outlive the store

  // Those that changed last come first.
  Result<std::vector<model::Document>> list(const DocumentFilter& filter);
  // Code::not_found.
  Result<model::Document> find(std::int64_t id);
  Result<std::int64_t> count_of(const std::string& user);
  // Without its id, which is returned.
  Result<std::int64_t> add(const model::Document& document, const model::AuditRecord& record);
  // Its name, text and version, if the stored version is `before`. Code::invalid: it is not.
  Result<void> change(const model::Document& document, std::int64_t before,
                      const model::AuditRecord& record);
  Result<void> remove(std::int64_t id, const model::AuditRecord& record);

 private:
  Result<std::vector<model::Document>> select(const std::string& condition,
                                              std::vector<SqlValue> values);

  Database& database_;
};

}  // namespace lockstep::store

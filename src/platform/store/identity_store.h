// IdentityStore: the durable rows of users, projects and tokens, and the audit.
#pragma once

#include <optional>
#include <vector>

#include "base/result.h"
#include "platform/core/model/audit_record.h"
#include "platform/identity/directory.h"
#include "platform/store/database.h"

namespace lockstep::store {

class IdentityStore {
 public:
  virtual ~IdentityStore() = default;

  // All rows; the directory's daemon_user is empty.
  virtual Result<identity::Directory> load_directory() = 0;
  // All of the rows and the record, or none of them.
  virtual Result<void> commit(const identity::Changes& changes,
                              const std::optional<model::AuditRecord>& record) = 0;
  virtual Result<std::optional<identity::Secret>> find_secret(const identity::SecretId& id) = 0;
  // Newest first.
  virtual Result<std::vector<model::AuditRecord>> list_audit(const model::AuditFilter& filter) = 0;
};

class SqlIdentityStore : public IdentityStore {
 public:
  explicit SqlIdentityStore(Database& database) : database_(database) {}  // must outlive the store

  Result<identity::Directory> load_directory() override;
  Result<void> commit(const identity::Changes& changes,
                      const std::optional<model::AuditRecord>& record) override;
  Result<std::optional<identity::Secret>> find_secret(const identity::SecretId& id) override;
  Result<std::vector<model::AuditRecord>> list_audit(const model::AuditFilter& filter) override;

 private:
  Database& database_;
};

}  // namespace lockstep::store

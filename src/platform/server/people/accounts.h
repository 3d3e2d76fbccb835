// Accounts: the users and their rights, and the audit of what they do. The rows are stored first,
// then changed in memory.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "platform/identity/rights.h"
#include "platform/store/identity_store.h"

namespace lockstep::server {

class Accounts {
 public:
  // Both outlive this. The first start of a store makes its first rows: `unix_user`, whose daemon
  // it is, is an admin.
  static Result<std::unique_ptr<Accounts>> open(store::IdentityStore& store, const Clock& clock,
                                                std::string_view unix_user);

  const identity::Directory& directory() const { return directory_; }
  // Stores the changes and the record of them. No changes: nothing is recorded.
  Result<void> change(const identity::Changes& changes, const model::AuditRecord& record);
  // Stores the record of a call that changed no row.
  Result<void> record(const model::AuditRecord& record);
  // At most 60 a minute of each user; a failure is logged.
  void record_refusal(model::AuditRecord record);
  Result<std::vector<model::AuditRecord>> list_audit(const model::AuditFilter& filter) const {
    return store_.list_audit(filter);
  }
  // A call with this token; stored every ten minutes.
  void record_use(const identity::Bearer& bearer);

 private:
  Accounts(store::IdentityStore& store, const Clock& clock, identity::Directory directory)
      : store_(store), clock_(clock), directory_(std::move(directory)) {}

  store::IdentityStore& store_;
  const Clock& clock_;
  identity::Directory directory_;
  std::int64_t refusal_minute_ = 0;
  std::map<std::string, int> refusals_;  // of that minute, by user
};

}  // namespace lockstep::server

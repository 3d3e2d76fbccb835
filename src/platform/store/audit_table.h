// The audit, whose records are added and read only: triggers of its table refuse the rest.
#pragma once

#include <vector>

#include "base/result.h"
#include "platform/core/model/audit_record.h"
#include "platform/store/database.h"

namespace lockstep::store {

// Within a transaction. The record's id is ignored: it gets the next one.
Result<void> add(Database& database, const model::AuditRecord& record);
// Newest first.
Result<std::vector<model::AuditRecord>> audit_records(Database& database,
                                                      const model::AuditFilter& filter);

}  // namespace lockstep::store

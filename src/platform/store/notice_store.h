// NoticeStore: the targets of notices, and the outbox: a row for each notice that a target is still
// to get. add() writes the rows in the transaction of the change that causes the notice.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "platform/core/model/audit_record.h"
#include "platform/core/model/notice.h"
#include "platform/core/notice/target.h"
#include "platform/store/database.h"

namespace lockstep::store {

inline constexpr int kWaitingMax = 10'000;  // of all targets
inline constexpr int kWaitingOfTargetMax = 1'000;

// A target with its state.
struct NoticeTarget {
  notice::Target target;
  std::string sealed;  // where it is; only the daemon's key opens it
  std::string shown;   // of that, what users may see
  Time added{};
  int failures = 0;                 // in a row
  Time next_try{};                  // not before
  std::string problem{};            // of the last try; empty: it was delivered
  std::optional<Time> delivered{};  // the last one
  std::int64_t waiting = 0;         // notices
  std::int64_t dropped = 0;         // ever

  bool operator==(const NoticeTarget&) const = default;
};

// The oldest notice of a target that may be tried.
struct DueNotice {
  std::int64_t row = 0;
  Time made{};
  model::Notice notice;
  NoticeTarget target;
};

// The end of a try that has failed.
struct FailedTry {
  std::string problem;
  Time next_try{};
  bool is_dropped = false;  // the notice; else it waits
};

class NoticeStore {
 public:
  explicit NoticeStore(Database& database) : database_(database) {}  // must outlive the store

  // By id.
  Result<std::vector<NoticeTarget>> targets();
  // Without its id, which is returned.
  Result<std::int64_t> add_target(const NoticeTarget& target, const model::AuditRecord& record);
  // Its causes, and where it is.
  Result<void> change_target(const NoticeTarget& target, const model::AuditRecord& record);
  // With the notices that it was to get.
  Result<void> remove_target(std::int64_t id, const model::AuditRecord& record);

  // One for each target that is not in `busy`; those that have waited longest first.
  Result<std::vector<DueNotice>> due(Time now, int limit, std::span<const std::int64_t> busy);
  Result<void> record_delivery(const DueNotice& delivered, Time now);
  Result<void> record_failure(const DueNotice& failed, const FailedTry& how);
  // The target's user may not know of it any more.
  Result<void> withdraw(const DueNotice& notice);

 private:
  Database& database_;
};

// Within a transaction, after the other rows of the change.
Result<void> add(Database& database, const model::Notice& notice);

}  // namespace lockstep::store

// AuditEntry: a change that a user or Lockstep made to a run or a host. It is kept with the row.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "text/record.h"

namespace lockstep::model {

struct AuditEntry {
  Time time{};
  std::string by;    // the user; empty: Lockstep itself
  std::string what;  // one line: "held: the data set is being replaced"

  bool operator==(const AuditEntry&) const = default;

  static constexpr auto fields() {
    return record<AuditEntry>(field("time", &AuditEntry::time, "when"),
                              field("by", &AuditEntry::by, "the user; empty: Lockstep itself"),
                              field("what", &AuditEntry::what, "what was done, one line"));
  }
};

// The newest entries are kept, up to this number.
inline constexpr std::size_t kAuditEntriesMax = 50;

inline void add_audit_entry(std::vector<AuditEntry>& audit, AuditEntry entry) {
  if (audit.size() >= kAuditEntriesMax) audit.erase(audit.begin());
  audit.push_back(std::move(entry));
}

}  // namespace lockstep::model

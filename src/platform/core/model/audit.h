// What somebody changed of a run or a host, kept with it for all who ask later.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "text/record.h"

namespace lockstep {

struct AuditEntry {
  Time time{};
  std::string by;    // the user; empty: Lockstep itself
  std::string what;  // one line: "held: the data set is being replaced"

  bool operator==(const AuditEntry&) const = default;

  static constexpr auto fields() {
    return record<AuditEntry>(field("time", &AuditEntry::time, "when"),
                              field("by", &AuditEntry::by, "who; empty: Lockstep itself"),
                              field("what", &AuditEntry::what, "what was done, one line"));
  }
};

// So many are kept, the newest.
inline constexpr std::size_t kAuditMost = 50;

inline void add_entry(std::vector<AuditEntry>& audit, AuditEntry entry) {
  if (audit.size() >= kAuditMost) audit.erase(audit.begin());
  audit.push_back(std::move(entry));
}

}  // namespace lockstep

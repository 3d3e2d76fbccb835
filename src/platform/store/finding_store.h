// FindingStore: findings about runs, and the counters of devices that detectors compare with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "platform/core/model/finding.h"
#include "platform/core/model/ids.h"
#include "platform/store/database.h"

namespace lockstep::store {

struct StoredFinding {
  std::int64_t id = 0;  // given by the store; later findings have higher ones
  model::AttemptId attempt{};
  std::string host{};  // empty: the whole attempt
  model::Finding finding{};
  model::FindingAct act = model::FindingAct::event;
};

struct FindingFilter {
  std::optional<model::RunId> run{};
  std::optional<std::vector<std::string>> projects{};  // only these
  bool open = false;
  std::optional<std::int64_t> before{};  // only lower ids
  int limit = 100;
};

// The value of a counter up to which a detector has judged it.
struct FindingMark {
  int node = 0;
  std::string metric{};
  double value = 0;

  bool operator==(const FindingMark&) const = default;
};

class FindingStore {
 public:
  explicit FindingStore(Database& database) : database_(database) {}  // must outlive the store

  // All or nothing. A finding without an id gets one.
  Result<void> save(const model::AttemptId& attempt, std::vector<StoredFinding*> findings,
                    const std::vector<FindingMark>& marks);
  // The open findings of an attempt, and its marks.
  Result<std::vector<StoredFinding>> open_of(const model::AttemptId& attempt);
  Result<std::vector<FindingMark>> marks_of(const model::AttemptId& attempt);
  // The attempt has ended: its open findings end with it, and its marks are removed.
  Result<void> end(const model::AttemptId& attempt, Time when);
  // Newest first. A finding of an attempt that has ended has ended.
  Result<std::vector<StoredFinding>> list(const FindingFilter& filter);

 private:
  Result<std::vector<StoredFinding>> select(const std::string& condition,
                                            std::vector<SqlValue> values);

  Database& database_;
};

}  // namespace lockstep::store

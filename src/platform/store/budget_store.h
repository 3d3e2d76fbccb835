// BudgetStore: the postings of budgets and the use of devices, which are added with the
// controller's rows and never changed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "platform/core/budget/charge.h"
#include "platform/core/budget/ledger.h"
#include "platform/store/database.h"

namespace lockstep::store {

struct PostingFilter {
  std::string project;
  std::optional<std::int64_t> before{};  // only postings with a lower id
  int limit = 100;
};
struct StoredPosting {
  std::int64_t id = 0;
  budget::Posting posting;
};

// The columns by which a report is divided.
enum class UsageColumn { project, user, month, kind };
constexpr auto enum_names(UsageColumn) {
  return names<UsageColumn>({{UsageColumn::project, "project"},
                             {UsageColumn::user, "user"},
                             {UsageColumn::month, "month"},
                             {UsageColumn::kind, "kind"}});
}
struct UsageFilter {
  std::optional<std::vector<std::string>> projects{};  // only these
  std::optional<std::string> user{};
  std::optional<Time> since{};  // of the ends of the parts
  std::optional<Time> until{};
  std::vector<UsageColumn> by{};
};
// Empty columns are not divided by.
struct UsageSum {
  std::string project{}, user{}, month{}, kind{};
  std::int64_t attempts = 0;
  budget::DeviceTime used{};
  budget::DeviceTime charged{};

  bool operator==(const UsageSum&) const = default;
};

class BudgetStore {
 public:
  virtual ~BudgetStore() = default;

  // The postings of the project's accounts, newest first.
  virtual Result<std::vector<StoredPosting>> list_postings(const PostingFilter& filter) = 0;
  // In the order of their columns.
  virtual Result<std::vector<UsageSum>> usage(const UsageFilter& filter) = 0;
};

class SqlBudgetStore : public BudgetStore {
 public:
  explicit SqlBudgetStore(Database& database) : database_(database) {}  // must outlive the store

  Result<std::vector<StoredPosting>> list_postings(const PostingFilter& filter) override;
  Result<std::vector<UsageSum>> usage(const UsageFilter& filter) override;

 private:
  Database& database_;
};

// Within a transaction.
Result<void> add(Database& database, const budget::Posting& posting);
Result<void> add(Database& database, const budget::UsagePart& part);

}  // namespace lockstep::store

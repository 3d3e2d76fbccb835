// Postings and the use of devices: stored, listed and summed.
#include "platform/store/budget_store.h"

#include <algorithm>
#include <array>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "base/temporary_folder_for_test.h"
#include "platform/store/sql_store.h"

namespace lockstep::store {
namespace {

using budget::Account;
using budget::PostingKind;
using std::chrono::hours;
using ::testing::ElementsAre;

Time on(std::string_view day) { return parse_time(std::string(day) + "T00:00:00Z").value(); }

class BudgetStoreTest : public ::testing::Test {
 protected:
  BudgetStoreTest() : database_(Database::open(folder_ / "store.db").value()) {}

  void add(const std::vector<model::Change>& rows) {
    ASSERT_TRUE(SqlStore(*database_).commit(rows));
  }
  budget::UsagePart part(const std::string& user, const std::string& kind, std::string_view until,
                         int starts = 1) {
    return {.run = "demo/1",
            .epoch = 1,
            .project = user == "eve" ? "other" : "demo",
            .user = user,
            .kind = kind,
            .devices = 1,
            .starts = starts,
            .from = on(until) - hours(1),
            .until = on(until),
            .used = hours(2),
            .charged = hours(1)};
  }
  std::vector<UsageSum> usage(const UsageFilter& filter) {
    return SqlBudgetStore(*database_).usage(filter).value();
  }

  TemporaryFolder folder_;
  std::unique_ptr<Database> database_;
};

TEST_F(BudgetStoreTest, PostingsOfAProjectAreListedNewestFirst) {
  const budget::Posting grant{.kind = PostingKind::grant,
                              .to = Account::available,
                              .to_project = "demo",
                              .amount = hours(5),
                              .signature = {on("2026-11-01"), "ann", "pilot", ""}};
  budget::Posting move = grant;
  move.kind = PostingKind::move;
  move.from = Account::available;
  move.from_project = "demo";
  move.to_project = "other";
  add({grant, move});
  SqlBudgetStore store(*database_);
  const auto all = store.list_postings({.project = "demo"}).value();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].posting, move);
  EXPECT_EQ(all[1].posting, grant);
  EXPECT_EQ(store.list_postings({.project = "demo", .before = all[0].id}).value().size(), 1U);
  EXPECT_EQ(store.list_postings({.project = "other"}).value().size(), 1U);
  EXPECT_EQ(store.list_postings({.project = "demo", .limit = 1}).value().size(), 1U);
}

TEST_F(BudgetStoreTest, NoPostingIsChangedOrRemoved) {
  add({budget::Posting{.to = Account::available, .to_project = "demo", .amount = hours(1)}});
  EXPECT_FALSE(database_->execute("update postings set amount = 1"));
  EXPECT_FALSE(database_->execute("delete from postings"));
}

TEST_F(BudgetStoreTest, TheUseIsSummedByTheColumnsThatAreAsked) {
  add({part("ann", "gpu", "2026-10-05"), part("ann", "gpu", "2026-11-05", 0),
       part("bob", "core", "2026-11-06"), part("eve", "gpu", "2026-11-07")});
  EXPECT_THAT(
      usage({.by = {UsageColumn::user}}),
      ElementsAre(UsageSum{.user = "ann", .attempts = 1, .used = hours(4), .charged = hours(2)},
                  UsageSum{.user = "bob", .attempts = 1, .used = hours(2), .charged = hours(1)},
                  UsageSum{.user = "eve", .attempts = 1, .used = hours(2), .charged = hours(1)}));
  const auto months = usage({.projects = {{"demo"}}, .by = {UsageColumn::month}});
  ASSERT_EQ(months.size(), 2U);
  EXPECT_EQ(months[1].month, "2026-11");
  EXPECT_EQ(months[1].used, hours(4));
  EXPECT_EQ(usage({.user = "bob", .by = {UsageColumn::kind}}).at(0).kind, "core");
  EXPECT_EQ(usage({.since = on("2026-11-06"), .until = on("2026-11-07")}).at(0).used, hours(2));
  EXPECT_TRUE(usage({.user = "nobody"}).empty());
}

// The report as it is defined: the sums of the parts themselves.
std::vector<UsageSum> sums_of(const std::vector<budget::UsagePart>& parts,
                              const UsageFilter& filter) {
  std::map<std::array<std::string, 4>, UsageSum> sums;
  const auto has = [&](UsageColumn column) {
    return std::ranges::find(filter.by, column) != filter.by.end();
  };
  for (const budget::UsagePart& part : parts) {
    if ((filter.since && part.until < *filter.since) ||
        (filter.until && part.until >= *filter.until) ||
        (filter.user && part.user != *filter.user) ||
        (filter.projects &&
         std::ranges::find(*filter.projects, part.project) == filter.projects->end()))
      continue;
    UsageSum row{.project = has(UsageColumn::project) ? part.project : "",
                 .user = has(UsageColumn::user) ? part.user : "",
                 .month = has(UsageColumn::month) ? text(part.until).substr(0, 7) : "",
                 .kind = has(UsageColumn::kind) ? part.kind : ""};
    UsageSum& sum =
        sums.try_emplace({row.project, row.user, row.month, row.kind}, row).first->second;
    sum.attempts += part.starts;
    sum.used += part.used;
    sum.charged += part.charged;
  }
  std::vector<UsageSum> rows;
  for (const auto& [columns, sum] : sums) rows.push_back(sum);
  return rows;
}

TEST_F(BudgetStoreTest, ReportsFromTheSumsOfDaysAgreeWithTheParts) {
  using enum UsageColumn;
  Random random(1);
  std::vector<budget::UsagePart> parts;
  const Time first = on("2026-01-30");
  const auto any_time = [&] { return first + std::chrono::minutes(random.below(5 * 24 * 60)); };
  for (int i = 0; i < 300; ++i) {
    budget::UsagePart& added = parts.emplace_back(
        part(random.below(2) ? "ann" : "eve", random.below(2) ? "gpu" : "core", "2026-01-01"));
    added.until = any_time();
    added.starts = static_cast<int>(random.below(2));
    added.used = std::chrono::seconds(1 + random.below(1000));
    added.charged = added.used / 2;
  }
  add({parts.begin(), parts.end()});
  for (int round = 0; round < 100; ++round) {
    UsageFilter filter;
    if (random.below(2)) filter.since = any_time();
    if (random.below(2)) filter.until = any_time();
    if (random.below(4) == 0) filter.since = on("2026-02-01");
    if (random.below(4) == 0) filter.until = on("2026-02-02");
    if (random.below(4) == 0) filter.user = "ann";
    if (random.below(4) == 0) filter.projects = {"other"};
    for (const UsageColumn column : {project, user, month, kind})
      if (random.below(2)) filter.by.push_back(column);
    EXPECT_EQ(usage(filter), sums_of(parts, filter)) << round;
  }
}

}  // namespace
}  // namespace lockstep::store

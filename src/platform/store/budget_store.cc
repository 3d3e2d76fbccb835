#include "platform/store/budget_store.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "text/convert.h"
#include "text/json.h"

namespace lockstep::store {
namespace {

using budget::Account;
using budget::DeviceTime;
using budget::PostingKind;
using Days = std::chrono::time_point<Time::clock, std::chrono::days>;

SqlValue sql_of(std::string words) { return {.type = SqlType::text, .text = std::move(words)}; }
SqlValue sql_of(std::int64_t number) { return {.integer = number}; }
SqlValue sql_of(Time time) { return sql_of(time.time_since_epoch().count()); }

Result<StoredPosting> posting_from(std::vector<SqlValue>& row) {
  StoredPosting stored{.id = row[0].integer, .posting = {}};
  budget::Posting& posting = stored.posting;
  posting.kind = TRY(parse_name<PostingKind>(row[1].text));
  posting.from = TRY(parse_name<Account>(row[2].text));
  posting.from_project = std::move(row[3].text);
  posting.to = TRY(parse_name<Account>(row[4].text));
  posting.to_project = std::move(row[5].text);
  posting.amount = DeviceTime(row[6].integer);
  posting.signature = {.time = Time(Duration(row[7].integer)),
                       .by = std::move(row[8].text),
                       .reason = std::move(row[9].text),
                       .attempt = std::move(row[10].text)};
  return stored;
}

// The expression of a column that the report is divided by; an empty text for the others.
std::string column_of(const UsageFilter& filter, UsageColumn column) {
  if (std::ranges::find(filter.by, column) == filter.by.end()) return "''";
  if (column == UsageColumn::month) return "strftime('%Y-%m', day * 86400, 'unixepoch')";
  return std::string(name_of(column));
}

// The sums of whole days, and the parts of the days in which the range begins and ends.
constexpr std::string_view kParts =
    "select day, project, user, kind, starts, used, charged from usage_days "
    "where day >= :first_day and day < :last_day "
    "union all select ends / 86400000000, project, user, kind, starts, used, charged from usage "
    "where ends >= :since and ends < :until_first_day "
    "union all select ends / 86400000000, project, user, kind, starts, used, charged from usage "
    "where ends >= :since_last_day and ends < :until";

// The values of kParts, in their order.
std::vector<SqlValue> range_of(const UsageFilter& filter) {
  using std::chrono::days;
  constexpr days kNever(100'000'000);  // its time is within the range of 64 bits
  const auto first = filter.since ? std::chrono::ceil<days>(*filter.since) : Days(-kNever);
  const auto last = filter.until ? std::chrono::floor<days>(*filter.until) : Days(kNever);
  const Time since = filter.since.value_or(Time(first)), until = filter.until.value_or(Time(last));
  return {sql_of(std::int64_t{first.time_since_epoch().count()}),
          sql_of(std::int64_t{last.time_since_epoch().count()}),
          sql_of(since),
          sql_of(std::min(Time(first), until)),
          sql_of(std::max(Time(first), Time(last))),
          sql_of(until)};
}

}  // namespace

Result<void> add(Database& database, const budget::Posting& posting) {
  const budget::Signature& signature = posting.signature;
  return database.execute(
      "insert into postings (kind, from_account, from_project, to_account, to_project, amount, "
      "time, by, reason, attempt) values (:kind, :from_account, :from_project, :to_account, "
      ":to_project, :amount, :time, :by, :reason, :attempt)",
      name_of(posting.kind), name_of(posting.from), posting.from_project, name_of(posting.to),
      posting.to_project, posting.amount.count(), signature.time, signature.by, signature.reason,
      signature.attempt);
}

Result<void> add(Database& database, const budget::UsagePart& part) {
  return database.execute(
      "insert into usage (run, epoch, project, user, kind, devices, starts, begins, ends, used, "
      "charged) values (:run, :epoch, :project, :user, :kind, :devices, :starts, :begins, :ends, "
      ":used, :charged)",
      part.run, part.epoch, part.project, part.user, part.kind, part.devices, part.starts,
      part.from, part.until, part.used.count(), part.charged.count());
}

Result<std::vector<StoredPosting>> SqlBudgetStore::list_postings(const PostingFilter& filter) {
  using enum SqlType;
  std::vector<StoredPosting> postings;
  TRY(database_.run(
      "select id, kind, from_account, from_project, to_account, to_project, amount, time, by, "
      "reason, attempt from postings where (from_project = :project or to_project = :project) "
      "and (:before is null or id < :before) order by id desc limit :limit",
      {sql_of(filter.project),
       {.null = !filter.before, .integer = filter.before.value_or(0)},
       sql_of(std::int64_t{filter.limit})},
      {integer, text, text, text, text, text, integer, integer, text, text, text},
      [&](std::vector<SqlValue>& row) -> Result<void> {
        postings.push_back(TRY(posting_from(row)));
        return {};
      }));
  return postings;
}

Result<std::vector<UsageSum>> SqlBudgetStore::usage(const UsageFilter& filter) {
  using enum SqlType;
  std::vector<SqlValue> values = range_of(filter);
  std::string condition = "where 1";
  const auto add_condition = [&](std::string_view sql, SqlValue value) {
    condition += sql;
    values.push_back(std::move(value));
  };
  if (filter.projects)
    add_condition(" and project in (select value from json_each(:projects))",
                  sql_of(dump_json(to_json(*filter.projects))));
  if (filter.user) add_condition(" and user = :user", sql_of(*filter.user));
  const std::string sql = format(
      "with parts as ({}) select {} as p, {} as u, {} as m, {} as k, count(*), sum(starts), "
      "sum(used), sum(charged) from parts {} group by p, u, m, k order by p, u, m, k",
      kParts, column_of(filter, UsageColumn::project), column_of(filter, UsageColumn::user),
      column_of(filter, UsageColumn::month), column_of(filter, UsageColumn::kind), condition);
  std::vector<UsageSum> sums;
  TRY(database_.run(sql, values, {text, text, text, text, integer, integer, integer, integer},
                    [&](std::vector<SqlValue>& row) -> Result<void> {
                      if (row[4].integer == 0) return {};  // no row at all, without a column
                      sums.push_back({.project = std::move(row[0].text),
                                      .user = std::move(row[1].text),
                                      .month = std::move(row[2].text),
                                      .kind = std::move(row[3].text),
                                      .attempts = row[5].integer,
                                      .used = DeviceTime(row[6].integer),
                                      .charged = DeviceTime(row[7].integer)});
                      return {};
                    }));
  return sums;
}

}  // namespace lockstep::store

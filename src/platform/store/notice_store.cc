#include "platform/store/notice_store.h"

#include <chrono>
#include <utility>

#include "platform/store/audit_table.h"
#include "text/convert.h"
#include "text/json.h"

namespace lockstep::store {
namespace {

// No pause is longer: the clock was set back since.
constexpr Duration kLatestTry = std::chrono::hours(2);
constexpr std::string_view kTargetColumns =
    "t.id, t.kind, t.scope, t.user, t.project, t.causes, t.sealed, t.shown, t.added, t.failures, "
    "t.next_try, t.problem, t.delivered, t.waiting, t.dropped";
std::vector<SqlType> target_types() {
  using enum SqlType;
  return {integer, text,    text,    text, text,    text,    text,   text,
          integer, integer, integer, text, integer, integer, integer};
}

Result<NoticeTarget> target_from(std::vector<SqlValue>& row) {
  NoticeTarget target;
  target.target.id = row[0].integer;
  target.target.kind = TRY(parse_name<notice::TargetKind>(row[1].text));
  target.target.scope = TRY(parse_name<notice::Scope>(row[2].text));
  target.target.user = std::move(row[3].text);
  target.target.project = std::move(row[4].text);
  target.target.on = TRY(from_json<std::vector<notice::Cause>>(TRY(parse_json(row[5].text))));
  target.sealed = std::move(row[6].text);
  target.shown = std::move(row[7].text);
  target.added = Time(Duration(row[8].integer));
  target.failures = static_cast<int>(row[9].integer);
  target.next_try = Time(Duration(row[10].integer));
  target.problem = std::move(row[11].text);
  if (!row[12].null) target.delivered = Time(Duration(row[12].integer));
  target.waiting = row[13].integer;
  target.dropped = row[14].integer;
  return target;
}

// `condition` follows "from notice_targets t".
Result<std::vector<NoticeTarget>> targets_where(Database& database, std::string_view condition,
                                                const std::vector<SqlValue>& values) {
  std::vector<NoticeTarget> targets;
  TRY(database.run(format("select {} from notice_targets t {}", kTargetColumns, condition), values,
                   target_types(), [&](std::vector<SqlValue>& row) -> Result<void> {
                     targets.push_back(TRY(target_from(row)));
                     return {};
                   }));
  return targets;
}

// After rows of its notices were added or removed.
Result<void> count_waiting(Database& database, std::int64_t target, int dropped = 0) {
  return database.execute(
      "update notice_targets set waiting = (select count(*) from notices where target = :id), "
      "dropped = dropped + :dropped where id = :same_id",
      target, dropped, target);
}

Result<void> drop_oldest(Database& database, std::int64_t target) {
  TRY(
      database.execute("delete from notices where id = (select min(id) from notices where target = "
                       ":target)",
                       target));
  return count_waiting(database, target, 1);
}

Result<void> keep_bounds(Database& database, const notice::Target& target) {
  const auto waiting = TRY(
      database.rows<std::int64_t>("select waiting from notice_targets where id = :id", target.id));
  if (!waiting.empty() && std::get<0>(waiting[0]) > kWaitingOfTargetMax)
    return drop_oldest(database, target.id);
  const auto all =
      TRY(database.rows<std::int64_t>("select coalesce(sum(waiting), 0) from notice_targets"));
  if (std::get<0>(all[0]) <= kWaitingMax) return {};
  const auto fullest = TRY(database.rows<std::int64_t>(
      "select id from notice_targets order by waiting desc, id limit 1"));
  return drop_oldest(database, std::get<0>(fullest[0]));
}

// None: its project has no budget, or its use is not recorded.
Result<std::optional<budget::DeviceTime>> cost_of(Database& database, const model::Notice& notice) {
  const auto sums = TRY((database.rows<std::int64_t, std::int64_t>(
      "select count(*), coalesce(sum(charged), 0) from usage where run = :run and exists (select 1 "
      "from budgets where project = :project and limited)",
      notice.run, notice.project)));
  const auto& [parts, charged] = sums[0];
  return parts == 0 ? std::nullopt : std::optional(budget::DeviceTime(charged));
}

Result<void> put_in_outbox(Database& database, const notice::Target& target,
                           const model::Notice& notice) {
  TRY(database.execute(
      "insert into notices (target, made, notice) values (:target, :made, :notice)", target.id,
      notice.time, dump_json(to_json(notice))));
  TRY(count_waiting(database, target.id));
  return keep_bounds(database, target);
}

Result<void> remove_row(Database& database, std::int64_t row) {
  return database.execute("delete from notices where id = :id", row);
}

}  // namespace

Result<void> add(Database& database, const model::Notice& notice) {
  model::Notice stored = notice;
  bool is_complete = notice.run.empty() || notice.kind == model::NoticeKind::finding;
  for (const NoticeTarget& row :
       TRY(targets_where(database, "where t.project in ('', :project) order by t.id",
                         {{.type = SqlType::text, .text = notice.project}}))) {
    if (!notice::matches(row.target, notice)) continue;
    if (!std::exchange(is_complete, true)) stored.cost = TRY(cost_of(database, notice));
    TRY(put_in_outbox(database, row.target, stored));
  }
  return {};
}

Result<std::vector<NoticeTarget>> NoticeStore::targets() {
  return targets_where(database_, "order by t.id", {});
}

Result<std::int64_t> NoticeStore::add_target(const NoticeTarget& target,
                                             const model::AuditRecord& record) {
  std::int64_t id = 0;
  TRY(database_.transaction([&]() -> Result<void> {
    TRY(database_.execute(
        "insert into notice_targets (kind, scope, user, project, causes, sealed, shown, added, "
        "failures, next_try, problem, waiting, dropped) values (:kind, :scope, :user, :project, "
        ":causes, :sealed, :shown, :added, 0, 0, '', 0, 0)",
        name_of(target.target.kind), name_of(target.target.scope), target.target.user,
        target.target.project, dump_json(to_json(target.target.on)), target.sealed, target.shown,
        target.added));
    const auto last = TRY(database_.rows<std::int64_t>("select max(id) from notice_targets"));
    id = std::get<0>(last[0]);
    return add(database_, record);
  }));
  return id;
}

Result<void> NoticeStore::change_target(const NoticeTarget& target,
                                        const model::AuditRecord& record) {
  return database_.transaction([&]() -> Result<void> {
    TRY(database_.execute(
        "update notice_targets set kind = :kind, causes = :causes, sealed = :sealed, failures = "
        "0, next_try = 0 where id = :id",
        name_of(target.target.kind), dump_json(to_json(target.target.on)), target.sealed,
        target.target.id));
    return add(database_, record);
  });
}

Result<void> NoticeStore::remove_target(std::int64_t id, const model::AuditRecord& record) {
  return database_.transaction([&]() -> Result<void> {
    TRY(database_.execute("delete from notices where target = :id", id));
    TRY(database_.execute("delete from notice_targets where id = :id", id));
    return add(database_, record);
  });
}

Result<std::vector<DueNotice>> NoticeStore::due(Time now, int limit,
                                                std::span<const std::int64_t> busy) {
  const std::string of_busy =
      dump_json(to_json(std::vector<std::int64_t>(busy.begin(), busy.end())));
  std::vector<DueNotice> due;
  for (const NoticeTarget& target : TRY(targets_where(
           database_,
           "where t.waiting > 0 and (t.next_try <= :now or t.next_try > :latest) and t.id not in "
           "(select value from json_each(:busy)) order by t.next_try, t.id limit :limit",
           {{.integer = now.time_since_epoch().count()},
            {.integer = (now + kLatestTry).time_since_epoch().count()},
            {.type = SqlType::text, .text = of_busy},
            {.integer = limit}})))
    for (auto& [row, made, words] : TRY((database_.rows<std::int64_t, Time, std::string>(
             "select id, made, notice from notices where target = :target order by id limit 1",
             target.target.id))))
      due.push_back({.row = row,
                     .made = made,
                     .notice = TRY(from_json<model::Notice>(TRY(parse_json(words)))),
                     .target = target});
  return due;
}

Result<void> NoticeStore::record_delivery(const DueNotice& delivered, Time now) {
  const std::int64_t target = delivered.target.target.id;
  return database_.transaction([&]() -> Result<void> {
    TRY(remove_row(database_, delivered.row));
    TRY(database_.execute(
        "update notice_targets set failures = 0, next_try = :now, problem = '', delivered = "
        ":same_now where id = :id",
        now, now, target));
    return count_waiting(database_, target);
  });
}

Result<void> NoticeStore::record_failure(const DueNotice& failed, const FailedTry& how) {
  const std::int64_t target = failed.target.target.id;
  return database_.transaction([&]() -> Result<void> {
    if (how.is_dropped) TRY(remove_row(database_, failed.row));
    TRY(database_.execute(
        "update notice_targets set failures = failures + 1, next_try = :next, problem = :problem "
        "where id = :id",
        how.next_try, how.problem, target));
    return count_waiting(database_, target, how.is_dropped ? 1 : 0);
  });
}

Result<void> NoticeStore::withdraw(const DueNotice& notice) {
  return database_.transaction([&]() -> Result<void> {
    TRY(remove_row(database_, notice.row));
    return count_waiting(database_, notice.target.target.id, 1);
  });
}

}  // namespace lockstep::store

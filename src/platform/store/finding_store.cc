#include "platform/store/finding_store.h"

#include <utility>

#include "base/format.h"
#include "text/convert.h"
#include "text/json.h"

namespace lockstep::store {
namespace {

using model::Finding;
using model::FindingAct;
using model::FindingKind;

SqlValue text_value(std::string words) { return {.type = SqlType::text, .text = std::move(words)}; }
SqlValue whole_value(std::int64_t number) { return {.integer = number}; }

std::optional<int> number_of(const SqlValue& value) {
  return value.null ? std::nullopt : std::optional(static_cast<int>(value.integer));
}

Result<StoredFinding> finding_from(std::vector<SqlValue>& row) {
  StoredFinding stored{.id = row[0].integer,
                       .attempt = {{std::move(row[1].text), row[2].integer}, row[3].integer},
                       .host = std::move(row[8].text),
                       .finding = {.subject = {.kind = TRY(parse_name<FindingKind>(row[4].text)),
                                               .node = number_of(row[5]),
                                               .rank = number_of(row[6]),
                                               .device = number_of(row[7]),
                                               .part = std::move(row[9].text)},
                                   .since = Time(Duration(row[10].integer)),
                                   .last_seen = Time(Duration(row[11].integer)),
                                   .text = std::move(row[13].text),
                                   .of_hardware = row[14].integer != 0},
                       .act = TRY(parse_name<FindingAct>(row[15].text))};
  if (!row[12].null) stored.finding.ended = Time(Duration(row[12].integer));
  return stored;
}

Result<void> insert(Database& database, StoredFinding& stored) {
  const auto& [subject, since, last_seen, ended, words, of_hardware] = stored.finding;
  TRY(database.execute(
      "insert into findings (project, number, epoch, kind, node, rank, device, host, part, since, "
      "last_seen, ended, text, of_hardware, act) values (:project, :number, :epoch, :kind, :node, "
      ":rank, :device, :host, :part, :since, :last_seen, :ended, :text, :of_hardware, :act)",
      stored.attempt.run.project, stored.attempt.run.number, stored.attempt.epoch,
      name_of(subject.kind), subject.node, subject.rank, subject.device, stored.host, subject.part,
      since, last_seen, ended, words, of_hardware, name_of(stored.act)));
  const auto made = TRY(database.rows<std::int64_t>("select max(id) from findings"));
  stored.id = std::get<0>(made.at(0));
  return {};
}

Result<void> update(Database& database, const StoredFinding& stored) {
  return database.execute(
      "update findings set last_seen = :last_seen, ended = :ended, text = :text, of_hardware = "
      ":of_hardware, act = :act where id = :id",
      stored.finding.last_seen, stored.finding.ended, stored.finding.text,
      stored.finding.of_hardware, name_of(stored.act), stored.id);
}

}  // namespace

Result<void> FindingStore::save(const model::AttemptId& attempt,
                                std::vector<StoredFinding*> findings,
                                const std::vector<FindingMark>& marks) {
  std::vector<StoredFinding*> added;
  auto saved = database_.transaction([&]() -> Result<void> {
    for (StoredFinding* stored : findings) {
      if (stored->id != 0) {
        TRY(update(database_, *stored));
        continue;
      }
      added.push_back(stored);
      TRY(insert(database_, *stored));
    }
    for (const FindingMark& mark : marks)
      TRY(database_.execute(
          "insert into finding_marks (project, number, epoch, node, metric, value) values "
          "(:project, :number, :epoch, :node, :metric, :value) on conflict do update set value = "
          "excluded.value",
          attempt.run.project, attempt.run.number, attempt.epoch, mark.node, mark.metric,
          mark.value));
    return {};
  });
  if (!saved)
    for (StoredFinding* stored : added) stored->id = 0;
  return saved;
}

Result<std::vector<StoredFinding>> FindingStore::select(const std::string& condition,
                                                        std::vector<SqlValue> values) {
  using enum SqlType;
  std::vector<StoredFinding> found;
  TRY(database_.run(
      "select f.id, f.project, f.number, f.epoch, f.kind, f.node, f.rank, f.device, f.host, "
      "f.part, f.since, f.last_seen, coalesce(f.ended, a.ended), f.text, f.of_hardware, f.act from "
      "findings as f left join attempts as a using (project, number, epoch) where " +
          condition,
      values,
      {integer, text, integer, integer, text, integer, integer, integer, text, text, integer,
       integer, integer, text, integer, text},
      [&](std::vector<SqlValue>& row) -> Result<void> {
        found.push_back(TRY(finding_from(row)));
        return {};
      }));
  return found;
}

Result<std::vector<StoredFinding>> FindingStore::open_of(const model::AttemptId& attempt) {
  return select(
      "f.project = :project and f.number = :number and f.epoch = :epoch and f.ended is "
      "null order by f.id",
      {text_value(attempt.run.project), whole_value(attempt.run.number),
       whole_value(attempt.epoch)});
}

Result<std::vector<FindingMark>> FindingStore::marks_of(const model::AttemptId& attempt) {
  std::vector<FindingMark> marks;
  for (auto& [node, metric, value] : TRY((database_.rows<int, std::string, double>(
           "select node, metric, value from finding_marks where project = :project and number = "
           ":number and epoch = :epoch order by node, metric",
           attempt.run.project, attempt.run.number, attempt.epoch))))
    marks.push_back({node, std::move(metric), value});
  return marks;
}

Result<void> FindingStore::end(const model::AttemptId& attempt, Time when) {
  const auto& [run, epoch] = attempt;
  return database_.transaction([&]() -> Result<void> {
    TRY(database_.execute(
        "update findings set ended = max(:ended, last_seen) where project = :project and number = "
        ":number and epoch = :epoch and ended is null",
        when, run.project, run.number, epoch));
    return database_.execute(
        "delete from finding_marks where project = :project and number = :number and epoch = "
        ":epoch",
        run.project, run.number, epoch);
  });
}

Result<std::vector<StoredFinding>> FindingStore::list(const FindingFilter& filter) {
  std::string condition = "1";
  std::vector<SqlValue> values;
  const auto add = [&](std::string_view sql, SqlValue value) {
    condition += sql;
    values.push_back(std::move(value));
  };
  if (filter.run) {
    add(" and f.project = :project", text_value(filter.run->project));
    add(" and f.number = :number", whole_value(filter.run->number));
  }
  if (filter.projects)
    add(" and f.project in (select value from json_each(:projects))",
        text_value(dump_json(to_json(*filter.projects))));
  if (filter.open) condition += " and f.ended is null and a.ended is null";
  if (filter.before) add(" and f.id < :before", whole_value(*filter.before));
  add(" order by f.id desc limit :limit", whole_value(filter.limit));
  return select(condition, std::move(values));
}

}  // namespace lockstep::store

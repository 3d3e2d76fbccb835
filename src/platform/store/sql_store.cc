#include "platform/store/sql_store.h"

#include <algorithm>

#include "base/format.h"
#include "platform/store/audit_table.h"
#include "platform/store/budget_store.h"
#include "platform/store/cleanup_tables.h"
#include "platform/store/notice_store.h"
#include "platform/store/run_list.h"
#include "platform/store/run_values.h"
#include "platform/store/tables.h"

namespace lockstep::store {
namespace {

Result<void> put(Database& db, const model::Run& run) {
  TRY(upsert(db, run));
  return add_run_values(db, run);
}
Result<void> put(Database& db, const model::Attempt& attempt) { return upsert(db, attempt); }
Result<void> put(Database& db, const model::HostRow& host) { return upsert(db, host); }
Result<void> put(Database& db, const model::LimitRow& limit) { return upsert(db, limit); }
Result<void> put(Database& db, const model::StoreRow& store) {
  return upsert(db, SingleRow<model::StoreRow>{.row = store});
}
Result<void> put(Database& db, const model::ClockRow& clock) {
  return upsert(db, SingleRow<model::ClockRow>{.row = clock});
}

Result<void> put(Database& db, const model::MeasuredRow& measured) {
  return upsert(db, SingleRow<model::MeasuredRow>{.row = measured});
}

Result<void> put(Database& db, const budget::Budget& budget) { return upsert(db, budget); }
Result<void> put(Database& db, const budget::Rate& rate) { return upsert(db, rate); }
Result<void> put(Database& db, const budget::Posting& posting) { return add(db, posting); }
Result<void> put(Database& db, const budget::UsagePart& part) { return add(db, part); }
Result<void> put(Database& db, const model::AuditRecord& record) { return add(db, record); }
Result<void> put(Database& db, const budget::Bucket& bucket) { return upsert(db, bucket); }

Result<void> put(Database& db, const model::Notice& notice) { return add(db, notice); }

Result<void> put(Database& db, const model::GivenUpNode& node) {
  return node.gone ? remove(db, node) : upsert(db, node);
}

// Only stop requests are stored.
Result<void> put(Database& db, const model::Orphan& orphan) {
  const OrphanRow row{std::string(text(orphan.id)), orphan.stop_requested_at.value_or(Time{})};
  return orphan.terminated || !orphan.stop_requested_at ? remove(db, row) : upsert(db, row);
}

// Its ranks replace those of before.
Result<void> put(Database& db, const model::Node& node) {
  const auto& [attempt, index] = node.id;
  TRY(upsert(db, node));
  TRY(
      db.execute("delete from ranks where project = :project and number = :number and "
                 "epoch = :epoch and node = :node",
                 attempt.run.project, attempt.run.number, attempt.epoch, index));
  for (const model::Rank& rank : node.ranks) TRY(upsert(db, RankRow{node.id, rank}));
  return {};
}

Result<void> put_all(Database& db, std::span<const model::Change> changes) {
  for (const model::Change& change : changes)
    TRY(std::visit([&](const auto& row) { return put(db, row); }, change));
  return {};
}

Result<void> check_tables(Database& db) {
  TRY(check_table<model::Run>(db));
  TRY(check_table<model::Attempt>(db));
  TRY(check_table<model::Node>(db));
  TRY(check_table<RankRow>(db));
  TRY(check_table<model::HostRow>(db));
  TRY(check_table<model::LimitRow>(db));
  TRY(check_table<budget::Budget>(db));
  TRY(check_table<budget::Rate>(db));
  TRY(check_table<budget::Bucket>(db));
  TRY(check_table<OrphanRow>(db));
  TRY(check_table<model::GivenUpNode>(db));
  TRY(check_table<SingleRow<model::StoreRow>>(db));
  TRY(check_table<SingleRow<model::MeasuredRow>>(db));
  return check_table<SingleRow<model::ClockRow>>(db);
}

Where of_run(const model::RunId& run) {
  return {"project = :project and number = :number",
          {{.type = SqlType::text, .text = run.project}, {.integer = run.number}}};
}

Result<void> add_rank(std::vector<model::Node>& nodes, RankRow row) {
  const auto node = std::ranges::lower_bound(nodes, row.node, {}, &model::Node::id);
  if (node == nodes.end() || node->id != row.node)
    return Error{Code::corrupt, format("table ranks, {}: the table nodes has no {}",
                                       Table<RankRow>::place(row), text(row.node))};
  node->ranks.push_back(std::move(row.rank));
  return {};
}

Result<model::RunRows> with_its_rows(Database& db, model::Run run) {
  const Where of = of_run(run.id);
  model::RunRows rows{.run = std::move(run)};
  TRY(for_each_row<model::Attempt>(db, of, [&](model::Attempt&& row) -> Result<void> {
    rows.attempts.push_back(std::move(row));
    return {};
  }));
  TRY(for_each_row<model::Node>(db, of, [&](model::Node&& row) -> Result<void> {
    rows.nodes.push_back(std::move(row));
    return {};
  }));
  TRY(for_each_row<RankRow>(db, of,
                            [&](RankRow&& row) { return add_rank(rows.nodes, std::move(row)); }));
  return rows;
}

Result<std::vector<model::Run>> runs_where(Database& db, const Where& where) {
  std::vector<model::Run> runs;
  TRY(for_each_row<model::Run>(db, where, [&](model::Run&& run) -> Result<void> {
    runs.push_back(std::move(run));
    return {};
  }));
  return runs;
}

Result<std::optional<model::RunRows>> find_rows(Database& db, const model::RunId& id) {
  auto found = TRY(runs_where(db, of_run(id)));
  if (found.empty()) return std::optional<model::RunRows>();
  return std::optional(TRY(with_its_rows(db, std::move(found.front()))));
}

Result<void> load_open_runs(Database& db, model::State& state) {
  for (model::Run& run : TRY(runs_where(db, {.condition = "ended is null"}))) {
    const model::RunRows rows = TRY(with_its_rows(db, std::move(run)));
    model::apply(state, rows.run);
    for (const model::Attempt& attempt : rows.attempts) model::apply(state, attempt);
    for (const model::Node& node : rows.nodes) model::apply(state, node);
  }
  return {};
}

Result<void> load_awaited_runs(Database& db, model::State& state) {
  std::vector<std::string> names;
  for (const auto& [id, run] : state.runs)
    names.insert(names.end(), run.spec.after.begin(), run.spec.after.end());
  for (const std::string& name : names) {
    const model::RunId id = TRY(model::parse_run_id(name));
    if (state.runs.contains(id)) continue;
    if (const auto rows = TRY(find_rows(db, id))) model::add_ended_run(state, *rows);
  }
  return {};
}

Result<void> add_orphan(model::State& state, const OrphanRow& row) {
  auto id = model::parse_node_name(row.node);
  if (!id)
    return Error{Code::corrupt,
                 format("table orphans, {}, column node: {}", row.node, id.error().message)};
  model::apply(state,
               model::Orphan{.id = *std::move(id), .stop_requested_at = row.stop_requested_at});
  return {};
}

template <class Row>
Result<void> load_rows(Database& db, model::State& state) {
  return for_each_row<Row>(db, [&](Row&& row) -> Result<void> {
    model::apply(state, std::move(row));
    return {};
  });
}

Result<void> load_all(Database& db, model::State& state) {
  TRY(check_tables(db));
  TRY(load_open_runs(db, state));
  TRY(load_awaited_runs(db, state));
  TRY(add_totals_of_ended_runs(db, state));
  TRY(load_rows<model::HostRow>(db, state));
  TRY(load_rows<model::LimitRow>(db, state));
  TRY(load_rows<budget::Budget>(db, state));
  TRY(load_rows<budget::Rate>(db, state));
  TRY(load_rows<budget::Bucket>(db, state));
  TRY(load_rows<model::GivenUpNode>(db, state));
  TRY(for_each_row<OrphanRow>(db, [&](OrphanRow&& row) { return add_orphan(state, row); }));
  // Empty before the store's first daemon has set a generation.
  TRY(for_each_row<SingleRow<model::StoreRow>>(db, [&](auto&& row) -> Result<void> {
    state.store = row.row;
    return {};
  }));
  TRY(for_each_row<SingleRow<model::MeasuredRow>>(db, [&](auto&& row) -> Result<void> {
    state.measured = row.row;
    return {};
  }));
  return for_each_row<SingleRow<model::ClockRow>>(db, [&](auto&& row) -> Result<void> {
    model::apply(state, row.row);
    return {};
  });
}

}  // namespace

Result<model::State> SqlStore::load() {
  model::State state;
  auto loaded = load_all(database_, state);
  if (!loaded)
    return std::move(loaded).error().with_context("loading the runs from " + database_.name());
  return state;
}

Result<std::optional<model::RunRows>> SqlStore::find_run(const model::RunId& run) {
  return find_rows(database_, run);
}

Result<std::optional<model::RunId>> SqlStore::find_request(const std::string& request_id) {
  std::optional<model::RunId> run;
  for (auto& [project, number] : TRY((database_.rows<std::string, std::int64_t>(
           "select project, number from runs where request_id = :id", request_id))))
    run = {std::move(project), number};
  return run;
}

Result<std::vector<model::Run>> SqlStore::list_runs(const model::RunFilter& filter) {
  std::vector<model::Run> runs;
  for (const model::RunId& run : TRY(listed_runs(database_, filter)))
    for (model::Run& row : TRY(runs_where(database_, of_run(run)))) runs.push_back(std::move(row));
  return runs;
}

Result<void> SqlStore::remove_run(const model::RunRows& run, std::span<const model::Change> also) {
  return database_.transaction([&]() -> Result<void> {
    TRY(record_removed_run(database_, run));
    TRY(remove_run_values(database_, run.run.id));
    for (const auto* table : {"ranks", "nodes", "attempts", "runs"})
      TRY(database_.execute(
          format("delete from {} where project = :project and number = :number", table),
          run.run.id.project, run.run.id.number));
    return put_all(database_, also);
  });
}

Result<void> SqlStore::commit(std::span<const model::Change> changes) {
  return database_.transaction([&] { return put_all(database_, changes); });
}

Result<void> SqlStore::check_writable() {
  return database_.transaction(
      [&] { return database_.execute("update schema_version set version = version"); });
}

}  // namespace lockstep::store

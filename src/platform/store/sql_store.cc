#include "platform/store/sql_store.h"

#include "base/format.h"
#include "platform/store/tables.h"

namespace lockstep::store {
namespace {

Result<void> put(Database& db, const model::Run& run) { return upsert(db, run); }
Result<void> put(Database& db, const model::Attempt& attempt) { return upsert(db, attempt); }
Result<void> put(Database& db, const model::HostRow& host) { return upsert(db, host); }
Result<void> put(Database& db, const model::LimitRow& limit) { return upsert(db, limit); }
Result<void> put(Database& db, const model::StoreRow& store) {
  return upsert(db, SingleRow<model::StoreRow>{.row = store});
}
Result<void> put(Database& db, const model::ClockRow& clock) {
  return upsert(db, SingleRow<model::ClockRow>{.row = clock});
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

Result<void> check_tables(Database& db) {
  TRY(check_table<model::Run>(db));
  TRY(check_table<model::Attempt>(db));
  TRY(check_table<model::Node>(db));
  TRY(check_table<RankRow>(db));
  TRY(check_table<model::HostRow>(db));
  TRY(check_table<model::LimitRow>(db));
  TRY(check_table<OrphanRow>(db));
  TRY(check_table<SingleRow<model::StoreRow>>(db));
  return check_table<SingleRow<model::ClockRow>>(db);
}

Result<void> add_rank(model::State& state, RankRow row) {
  const auto node = state.nodes.find(row.node);
  if (node == state.nodes.end())
    return Error{Code::corrupt, format("table ranks, {}: the table nodes has no {}",
                                       Table<RankRow>::place(row), text(row.node))};
  node->second.ranks.push_back(std::move(row.rank));
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
  TRY(load_rows<model::Run>(db, state));
  TRY(load_rows<model::Attempt>(db, state));
  TRY(load_rows<model::Node>(db, state));
  TRY(for_each_row<RankRow>(db, [&](RankRow&& row) { return add_rank(state, std::move(row)); }));
  TRY(load_rows<model::HostRow>(db, state));
  TRY(load_rows<model::LimitRow>(db, state));
  TRY(for_each_row<OrphanRow>(db, [&](OrphanRow&& row) { return add_orphan(state, row); }));
  // Empty before the store's first daemon has set a generation.
  TRY(for_each_row<SingleRow<model::StoreRow>>(db, [&](auto&& row) -> Result<void> {
    state.store = row.row;
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

Result<void> SqlStore::commit(std::span<const model::Change> changes) {
  return database_.transaction([&]() -> Result<void> {
    for (const model::Change& change : changes)
      TRY(std::visit([&](const auto& row) { return put(database_, row); }, change));
    return {};
  });
}

Result<void> SqlStore::check_writable() {
  return database_.transaction(
      [&] { return database_.execute("update schema_version set version = version"); });
}

}  // namespace lockstep::store

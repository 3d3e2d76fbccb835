// Stores what agents deliver in the tables.
#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "platform/insight/detail/lines.h"
#include "platform/insight/detail/points.h"
#include "platform/insight/detail/run_counters.h"
#include "platform/insight/device_use.h"
#include "platform/insight/insight.h"

namespace lockstep::insight {
namespace {

void count_received(std::span<const spool::TelemetryItem> items, Received& received) {
  for (const spool::TelemetryItem& item : items) {
    if (item.kind == spool::TelemetryKind::log)
      received.log_bytes += static_cast<std::int64_t>(item.text.size());
    if (has_points(item.kind)) received.points += static_cast<std::int64_t>(item.values.size());
  }
}

// How many old chunks are removed for the new ones of a call: more than came, so that the log
// shrinks below a lowered limit, and few enough for one call.
std::int64_t chunks_to_cut(std::span<const spool::TelemetryItem> items) {
  return 64 + 2 * static_cast<std::int64_t>(items.size());
}

// Adds a line of Lockstep to the log of the rank that it is about.
Result<void> append_note(store::Database& database, RunCounters& counters, std::int64_t epoch,
                         const spool::TelemetryItem& about, const std::string& text,
                         const Limits& limits) {
  const spool::TelemetryItem note{.rank = about.rank, .time = about.time, .text = text};
  return append_lines(database, counters, epoch, note, limits.line);
}

}  // namespace

Result<std::int64_t> Insight::ingest(const model::NodeName& node,
                                     std::span<const spool::TelemetryItem> items) {
  const Delivery delivery{node, items};
  return TRY(ingest_together({&delivery, 1})).front();
}

std::vector<Result<std::int64_t>> Insight::ingest(std::span<const Delivery> deliveries) {
  const auto together = ingest_together(deliveries);
  if (together) return {together->begin(), together->end()};
  std::vector<Result<std::int64_t>> each;
  for (const Delivery& delivery : deliveries) {
    const auto alone = ingest_together({&delivery, 1});
    each.push_back(alone ? Result<std::int64_t>(alone->front()) : alone.error());
  }
  return each;
}

// All or nothing, without a transaction if there is nothing to store.
Result<std::vector<std::int64_t>> Insight::ingest_together(std::span<const Delivery> deliveries) {
  std::vector<std::int64_t> stored;
  const auto put_all = [&]() -> Result<void> {
    for (const Delivery& delivery : deliveries) stored.push_back(TRY(put_new(delivery)));
    return {};
  };
  const bool empty = std::ranges::all_of(
      deliveries, [](const Delivery& delivery) { return delivery.items.empty(); });
  TRY(empty ? put_all() : database_.transaction(put_all));
  return stored;
}

// Returns the sequence up to which everything is durable after the commit.
Result<std::int64_t> Insight::put_new(const Delivery& delivery) {
  const model::NodeName& node = delivery.node;
  const auto& items = delivery.items;
  if (std::ranges::adjacent_find(items, std::ranges::greater_equal(),
                                 &spool::TelemetryItem::sequence) != items.end())
    return Error{Code::invalid, "items of " + text(node.id) + " must come by ascending sequence"};
  const StoredSequences stored = TRY(stored_sequences(node.id));
  const auto fresh =
      std::ranges::upper_bound(items, stored.points, {}, &spool::TelemetryItem::sequence);
  const std::span<const spool::TelemetryItem> rest(fresh, items.end());
  if (rest.empty()) return stored.points;
  TRY(check_space());
  auto done = put({node, rest, delivery.host_share}, stored);
  if (!done) return std::move(done).error().with_context("storing what " + text(node.id) + " sent");
  return done;
}

Result<StoredSequences> Insight::stored_sequences(const model::NodeId& node) {
  const auto& [attempt, index] = node;
  const auto found = TRY((database_.rows<std::int64_t, std::int64_t>(
      "select sequence, points from spools where project = :project and number = :number and "
      "epoch = :epoch and node = :node",
      attempt.run.project, attempt.run.number, attempt.epoch, index)));
  if (found.empty()) return StoredSequences{};
  return StoredSequences{std::get<0>(found[0]), std::get<1>(found[0])};
}

Result<std::int64_t> Insight::put(const Delivery& fresh, const StoredSequences& stored) {
  const auto& [attempt, index] = fresh.node.id;
  RunCounters counters =
      TRY(find_or_create_counters(database_, attempt.run, fresh.node.generation));
  PointsWriter points(fresh.node, counters, limits_);
  const auto first_new =
      std::ranges::upper_bound(fresh.items, stored.items, {}, &spool::TelemetryItem::sequence);
  TRY(put_items(fresh.node.id, {first_new, fresh.items.end()}, counters));
  TRY(add_device_use(database_, fresh.node.id, {first_new, fresh.items.end()}, fresh.host_share));
  const std::int64_t done = put_points(fresh, series_run(counters, attempt.run), stored, points);
  TRY(points.save_latest(database_));
  if (!points.rejection_note().empty())
    TRY(append_note(database_, counters, attempt.epoch, fresh.items.back(), points.rejection_note(),
                    limits_));
  TRY(cut_lines(database_, counters, limits_.log, chunks_to_cut(fresh.items)));
  TRY(save(database_, counters));
  count_received({first_new, fresh.items.end()}, received_);
  TRY(database_.execute(
      "insert into spools (project, number, epoch, node, sequence, points) values (:project, "
      ":number, :epoch, :node, :sequence, :points) on conflict do update set "
      "sequence = excluded.sequence, points = excluded.points",
      attempt.run.project, attempt.run.number, attempt.epoch, index,
      std::max(stored.items, fresh.items.back().sequence), done));
  return done;
}

// The series store takes the points first: if the transaction fails, the caller sends the batch
// again, and its points are known.
Result<Appended> Insight::append(const std::string& generation, const PointBatch& batch) {
  if (batch.points.empty()) return Appended();
  TRY(check_space());
  const model::NodeName node{generation, {batch.attempt, 0}};
  const model::RunId& run = batch.attempt.run;
  Appended appended;
  TRY(database_.transaction([&]() -> Result<void> {
    RunCounters counters = TRY(find_or_create_counters(database_, run, generation));
    PointBatch stored = batch;
    stored.attempt.run = series_run(counters, run);
    appended = TRY(series_.append(stored));
    counters.points += static_cast<std::int64_t>(appended.stored);
    counters.refused += static_cast<std::int64_t>(appended.rejected);
    PointsWriter latest(node, counters, limits_);
    latest.add_latest(batch);
    TRY(latest.save_latest(database_));
    TRY(save(database_, counters));
    const auto newest = std::ranges::max_element(
        batch.points, {}, [](const PointBatch::Point& each) { return each.point.step; });
    const spool::TelemetryItem step{.kind = spool::TelemetryKind::metrics,
                                    .step = newest->point.step,
                                    .time = newest->point.time};
    return put_step_from_metrics(node.id, {&step, 1});
  }));
  received_.points += static_cast<std::int64_t>(appended.stored);
  return appended;
}

Result<std::int64_t> Insight::appended(const model::RunId& run, const std::string& source) {
  const auto counters = TRY(find_counters(database_, run));
  if (!counters) return 0;
  return series_.stored_sequence(series_run(*counters, run), source);
}

Result<void> Insight::put_items(const model::NodeId& node,
                                std::span<const spool::TelemetryItem> items,
                                RunCounters& counters) {
  for (const spool::TelemetryItem& item : items) TRY(put(node, item, counters));
  TRY(put_step_from_metrics(node, items));
  return put_events(node, items);
}

// Returns the sequence up to which the points are stored. The series store has a mark of its own:
// if the transaction around this fails, its points are not stored again.
std::int64_t Insight::put_points(const Delivery& delivery, const model::RunId& series_run,
                                 const StoredSequences& stored, PointsWriter& points) {
  std::int64_t first = 0;
  const auto store_all = [&]() -> Result<void> {
    const std::int64_t mark = TRY(series_.stored_sequence(series_run, text(delivery.node)));
    for (const spool::TelemetryItem& item : delivery.items) {
      if (!has_points(item.kind)) continue;
      if (item.sequence <= std::max(mark, stored.points)) {
        points.add_latest(item);
        continue;
      }
      if (first == 0) first = item.sequence;
      points.add(item);
    }
    return points.store(series_);
  };
  const auto done = store_all();
  if (!done && points_problem_.empty()) LS_LOG(error, "points: {}", done.error().message);
  points_problem_ = done ? "" : "points of metrics cannot be stored: " + done.error().message;
  if (done) return delivery.items.back().sequence;
  return first == 0 ? stored.points : first - 1;
}

Result<void> Insight::put(const model::NodeId& node, const spool::TelemetryItem& item,
                          RunCounters& counters) {
  switch (item.kind) {
    case spool::TelemetryKind::log:
      return append_lines(database_, counters, node.attempt.epoch, item, limits_.line);
    case spool::TelemetryKind::progress:
      return put_progress(node, item);
    case spool::TelemetryKind::checkpoint:
      return put_checkpoint(node, item);
    case spool::TelemetryKind::metrics:
    case spool::TelemetryKind::telemetry:
    case spool::TelemetryKind::event:
      return {};  // all at once
  }
  LS_CHECK(false, "kind {}", static_cast<int>(item.kind));
  return {};
}

Result<void> Insight::put_progress(const model::NodeId& node, const spool::TelemetryItem& item) {
  const model::RunId& run = node.attempt.run;
  return database_.execute(
      "insert into progress (project, number, epoch, step, steps, time) values (:project, "
      ":number, :epoch, :step, :steps, :time) on conflict do update set epoch = excluded.epoch, "
      "step = excluded.step, steps = excluded.steps, time = excluded.time "
      "where (excluded.epoch, excluded.step) >= (epoch, step) or (steps = 0 and excluded.steps > "
      "0)",
      run.project, run.number, node.attempt.epoch, item.step, item.steps, item.time);
}

// For a program that reports no progress, the steps of its metrics count; its own reports take
// precedence.
Result<void> Insight::put_step_from_metrics(const model::NodeId& node,
                                            std::span<const spool::TelemetryItem> items) {
  const spool::TelemetryItem* newest = nullptr;
  for (const spool::TelemetryItem& item : items)
    if (item.kind == spool::TelemetryKind::metrics && (!newest || item.step >= newest->step))
      newest = &item;
  if (!newest) return {};
  const model::RunId& run = node.attempt.run;
  return database_.execute(
      "insert into progress (project, number, epoch, step, steps, time) values (:project, "
      ":number, :epoch, :step, 0, :time) on conflict do update set epoch = excluded.epoch, "
      "step = excluded.step, time = excluded.time where excluded.epoch > epoch or "
      "(excluded.epoch = epoch and steps = 0 and excluded.step >= step)",
      run.project, run.number, node.attempt.epoch, newest->step, newest->time);
}

Result<void> Insight::put_checkpoint(const model::NodeId& node, const spool::TelemetryItem& item) {
  const model::RunId& run = node.attempt.run;
  return database_.execute(
      "insert into checkpoints (project, number, step, epoch, path, time) values (:project, "
      ":number, :step, :epoch, :path, :time) on conflict do update set epoch = excluded.epoch, "
      "path = excluded.path, time = excluded.time where excluded.epoch >= epoch",
      run.project, run.number, item.step, node.attempt.epoch, item.text, item.time);
}

}  // namespace lockstep::insight

// What agents ship, into the tables.
#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "platform/insight/insight.h"

namespace lockstep::insight {
namespace {

std::int64_t stamp(Time time) { return time.time_since_epoch().count(); }

// SQLite has no NaN: it is NULL in these columns, which mean nothing else by it.
std::optional<double> sql_value(double value) {
  return std::isnan(value) ? std::nullopt : std::optional(value);
}

// Calls visit(line) for each line of a text that has line ends between its lines, none behind.
template <class Visit>
Result<void> for_each_line(std::string_view text, Visit&& visit) {
  for (;;) {
    const auto end = text.find('\n');
    TRY(visit(text.substr(0, end)));
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
}

}  // namespace

Result<std::int64_t> Insight::ingest(const NodeId& node, std::span<const Item> items) {
  std::int64_t stored = TRY(stored_sequence(node));
  const auto before = stored;
  auto done = database_.transaction([&]() -> Result<void> {
    for (const Item& item : items) {
      if (item.sequence <= stored) continue;
      TRY(put(node, item));
      stored = item.sequence;
    }
    if (stored == before) return {};
    const auto& [attempt, index] = node;
    return database_.execute(
        "insert into spools (project, number, epoch, node, sequence) values (:project, :number, "
        ":epoch, :node, :sequence) on conflict do update set sequence = excluded.sequence",
        attempt.run.project, attempt.run.number, attempt.epoch, index, stored);
  });
  if (!done) return std::move(done).error().within("storing what " + text(node) + " sent");
  return stored;
}

Result<std::int64_t> Insight::stored_sequence(const NodeId& node) {
  const auto& [attempt, index] = node;
  const auto found = TRY(database_.rows<std::int64_t>(
      "select sequence from spools where project = :project and number = :number and "
      "epoch = :epoch and node = :node",
      attempt.run.project, attempt.run.number, attempt.epoch, index));
  return found.empty() ? 0 : std::get<0>(found[0]);
}

Result<void> Insight::put(const NodeId& node, const Item& item) {
  switch (item.kind) {
    case ItemKind::log:
      return put_log(node, item);
    case ItemKind::metrics:
      return put_metrics(node, item);
    case ItemKind::progress:
      return put_progress(node, item);
    case ItemKind::checkpoint:
      return put_checkpoint(node, item);
  }
  LS_CHECK(false, "kind {}", static_cast<int>(item.kind));
  return {};
}

Result<void> Insight::put_log(const NodeId& node, const Item& item) {
  const RunId& run = node.attempt.run;
  return for_each_line(item.text, [&](std::string_view line) {
    return database_.execute(
        "insert into log_lines (project, number, epoch, rank, time, line) values (:project, "
        ":number, :epoch, :rank, :time, :line)",
        run.project, run.number, node.attempt.epoch, item.rank, stamp(item.time), line);
  });
}

// What an earlier attempt sends late overrides nothing.
Result<void> Insight::put_metrics(const NodeId& node, const Item& item) {
  const RunId& run = node.attempt.run;
  const auto epoch = node.attempt.epoch;
  for (const auto& [name, value] : item.values) {
    TRY(database_.execute(
        "insert into series (project, number, name, rank, epoch, step, time, value) values "
        "(:project, :number, :name, :rank, :epoch, :step, :time, :value) on conflict do update "
        "set epoch = excluded.epoch, step = excluded.step, time = excluded.time, "
        "value = excluded.value where (excluded.epoch, excluded.step) >= (epoch, step)",
        run.project, run.number, name, item.rank, epoch, item.step, stamp(item.time),
        sql_value(value)));
    TRY(database_.execute(
        "insert into points (series, step, epoch, time, value) select id, :step, :epoch, :time, "
        ":value from series where project = :project and number = :number and name = :name and "
        "rank = :rank on conflict do update set epoch = excluded.epoch, time = excluded.time, "
        "value = excluded.value where excluded.epoch >= epoch",
        item.step, epoch, stamp(item.time), sql_value(value), run.project, run.number, name,
        item.rank));
  }
  return {};
}

Result<void> Insight::put_progress(const NodeId& node, const Item& item) {
  const RunId& run = node.attempt.run;
  return database_.execute(
      "insert into progress (project, number, epoch, step, steps, time) values (:project, "
      ":number, :epoch, :step, :steps, :time) on conflict do update set epoch = excluded.epoch, "
      "step = excluded.step, steps = excluded.steps, time = excluded.time "
      "where (excluded.epoch, excluded.step) >= (epoch, step)",
      run.project, run.number, node.attempt.epoch, item.step, item.steps, stamp(item.time));
}

Result<void> Insight::put_checkpoint(const NodeId& node, const Item& item) {
  const RunId& run = node.attempt.run;
  return database_.execute(
      "insert into checkpoints (project, number, step, epoch, path, time) values (:project, "
      ":number, :step, :epoch, :path, :time) on conflict do update set epoch = excluded.epoch, "
      "path = excluded.path, time = excluded.time where excluded.epoch >= epoch",
      run.project, run.number, item.step, node.attempt.epoch, item.text, stamp(item.time));
}

}  // namespace lockstep::insight

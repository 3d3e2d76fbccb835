// Insight: what the ranks of a run say of themselves - lines, metrics, progress, checkpoints - as
// their agents ship it, and the questions asked about it.
//
// An agent numbers what it collects and sends it again until it hears that it is stored. Items up
// to the stored sequence of their node count as known and are skipped, so each is stored once. A
// run that goes on from a checkpoint repeats steps: for each (series, rank, step) the later
// attempt's value stands, and the latest value of a series is that of its newest attempt.
//
// Numbers are kept exactly, NaN and infinities too. Everything lies in the store's database.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "platform/core/model/ids.h"
#include "platform/store/database.h"
#include "text/record.h"

namespace lockstep::insight {

enum class ItemKind { log, metrics, progress, checkpoint };
constexpr auto enum_names(ItemKind) {
  return names<ItemKind>({{ItemKind::log, "log"},
                          {ItemKind::metrics, "metrics"},
                          {ItemKind::progress, "progress"},
                          {ItemKind::checkpoint, "checkpoint"}});
}

struct Item {
  std::int64_t sequence = 0;  // counts from 1 within a node, ascending in a batch
  ItemKind kind = ItemKind::log;
  int rank = 0;
  std::int64_t step = 0;
  std::int64_t steps = 0;  // progress: planned, 0 if unknown
  Time time{};
  std::string text{};  // log: lines, '\n' between them and none behind; checkpoint: path
  std::map<std::string, double> values{};  // metrics by name
};

struct Line {
  std::int64_t cursor = 0;  // ascending in the order of arrival
  std::int64_t epoch = 0;
  int rank = 0;
  Time time{};
  std::string text;  // without the line's end
};

struct LogQuery {
  std::int64_t after = 0;  // lines behind this cursor
  std::int64_t limit = 1000;
  std::optional<int> rank;  // of this rank only
};

struct Point {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  Time time{};
  double value = 0;
};

struct Series {
  std::string name;
  int rank = 0;
  std::vector<Point> points;  // by step
};

struct SeriesQuery {
  std::optional<std::string> name;
  std::optional<int> rank;
  std::optional<std::int64_t> after_step;  // points behind this step
};

struct Progress {
  std::int64_t epoch = 0;
  std::int64_t step = 0;
  std::int64_t steps = 0;  // 0: unknown
  Time time{};
};

struct Checkpoint {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::string path;
  Time time{};
};

class Insight {
 public:
  explicit Insight(Database& database) : database_(database) {}  // outlives this

  // Stores what is new of the batch, all or nothing, and returns the highest sequence of the node
  // that is durable now. An empty batch only asks for that.
  Result<std::int64_t> ingest(const NodeId& node, std::span<const Item> items);

  // Lines behind a cursor, oldest first.
  Result<std::vector<Line>> log(const RunId& run, const LogQuery& query);
  // The last lines of the run, oldest first.
  Result<std::vector<Line>> log_tail(const RunId& run, std::int64_t lines,
                                     std::optional<int> rank = std::nullopt);

  // By name and rank; series without points behind `after_step` are left out.
  Result<std::vector<Series>> series(const RunId& run, const SeriesQuery& query = {});
  // The last value of each metric, of the lowest rank that logged it.
  Result<std::map<std::string, double>> latest(const RunId& run);
  Result<std::optional<Progress>> progress(const RunId& run);
  // By step.
  Result<std::vector<Checkpoint>> checkpoints(const RunId& run);

 private:
  Result<std::int64_t> stored_sequence(const NodeId& node);
  Result<void> put(const NodeId& node, const Item& item);
  Result<void> put_log(const NodeId& node, const Item& item);
  Result<void> put_metrics(const NodeId& node, const Item& item);
  Result<void> put_progress(const NodeId& node, const Item& item);
  Result<void> put_checkpoint(const NodeId& node, const Item& item);

  Database& database_;
};

}  // namespace lockstep::insight

// TelemetryItem: one report of a rank, collected by its agent, or readings of the node. It has the
// same form in the agent, its spool, its heartbeats and the daemon's store. A line of a spool file
// and an element of a heartbeat are its record as JSON.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/units.h"
#include "text/record.h"

namespace lockstep::spool {

// telemetry: metrics of the node; its step is the time in seconds since 1970.
enum class TelemetryKind { log, metrics, telemetry, progress, checkpoint, event };
constexpr auto enum_names(TelemetryKind) {
  return names<TelemetryKind>({{TelemetryKind::log, "log"},
                               {TelemetryKind::metrics, "metrics"},
                               {TelemetryKind::telemetry, "telemetry"},
                               {TelemetryKind::progress, "progress"},
                               {TelemetryKind::checkpoint, "checkpoint"},
                               {TelemetryKind::event, "event"}});
}

struct TelemetryItem {
  // Counts from 1 within a node. The daemon stores items with the same (node, sequence) once.
  std::int64_t sequence = 0;
  TelemetryKind kind = TelemetryKind::log;
  int rank = 0;
  std::int64_t step = 0;
  std::int64_t steps = 0;  // progress: planned, 0 if unknown
  Time time{};
  // log: lines with '\n' between them and none at the end; checkpoint: its path; event: its
  // description.
  std::string text{};
  std::map<std::string, double> values{};  // metrics and telemetry by name

  bool operator==(const TelemetryItem&) const = default;

  static constexpr auto fields() {
    return record<TelemetryItem>(
        field("sequence", &TelemetryItem::sequence, "grows by one within a node"),
        required(field("kind", &TelemetryItem::kind, "what it tells of")),
        field("rank", &TelemetryItem::rank, "the rank it came from"),
        field("step", &TelemetryItem::step, "training step"),
        field("steps", &TelemetryItem::steps, "steps planned"),
        field("time", &TelemetryItem::time, "when it happened"),
        field("text", &TelemetryItem::text, "log lines, a checkpoint's path, or what happened"),
        field("values", &TelemetryItem::values, "metrics by name"));
  }
};

// Number of lines of a log item; 0 for others.
int line_count(const TelemetryItem& item);

}  // namespace lockstep::spool

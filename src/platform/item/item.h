// Item: one thing that a rank said and its agent collected. It is the same from the agent through
// its spool and its heartbeats to the daemon's store; a line of a spool file and an element of a
// heartbeat are its record as JSON.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/units.h"
#include "text/record.h"

namespace lockstep {

enum class ItemKind { log, metrics, progress, checkpoint, event };
constexpr auto enum_names(ItemKind) {
  return names<ItemKind>({{ItemKind::log, "log"},
                          {ItemKind::metrics, "metrics"},
                          {ItemKind::progress, "progress"},
                          {ItemKind::checkpoint, "checkpoint"},
                          {ItemKind::event, "event"}});
}

struct Item {
  // Counts from 1 within a node. By (node, sequence) the daemon keeps once what is sent twice.
  std::int64_t sequence = 0;
  ItemKind kind = ItemKind::log;
  int rank = 0;
  std::int64_t step = 0;
  std::int64_t steps = 0;  // progress: planned, 0 if unknown
  Time time{};
  // log: lines, '\n' between them and none behind; checkpoint: its path; event: what happened.
  std::string text{};
  std::map<std::string, double> values{};  // metrics by name

  bool operator==(const Item&) const = default;

  static constexpr auto fields() {
    return record<Item>(
        field("sequence", &Item::sequence, "grows by one within a node"),
        required(field("kind", &Item::kind, "what it tells of")),
        field("rank", &Item::rank, "the rank it came from"),
        field("step", &Item::step, "training step"), field("steps", &Item::steps, "steps planned"),
        field("time", &Item::time, "when it happened"),
        field("text", &Item::text, "log lines, a checkpoint's path, or what happened"),
        field("values", &Item::values, "metrics by name"));
  }
};

// Of a log item; none of others.
int line_count(const Item& item);

}  // namespace lockstep

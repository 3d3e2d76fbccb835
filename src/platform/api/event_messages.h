// The events of the stream that tells of changes; see messages.h and docs/design/events.md.
#pragma once

#include <string>
#include <vector>

#include "text/record.h"

namespace lockstep::api {

// An event has no values: the reader reads again what it shows.
struct Changes {
  bool all = false;
  std::vector<std::string> runs{};
  std::vector<std::string> points{};
  std::vector<std::string> lines{};
  bool queue = false;
  bool hosts = false;
  bool budgets = false;

  static constexpr auto fields() {
    return record<Changes>(
        field("all", &Changes::all,
              "changes were left out: read again all that you show; the other fields are empty"),
        field("runs", &Changes::runs, "runs whose state changed, or their tags or limits"),
        field("points", &Changes::points, "runs that reported metrics, steps or checkpoints"),
        field("lines", &Changes::lines, "runs with further lines"),
        field("queue", &Changes::queue, "the queue or what runs changed"),
        field("hosts", &Changes::hosts, "a host changed"),
        field("budgets", &Changes::budgets, "a budget or its use changed"));
  }
};

}  // namespace lockstep::api

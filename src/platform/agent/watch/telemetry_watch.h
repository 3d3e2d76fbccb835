// TelemetryWatch: readings of a node's host and of its GPUs, as items for the daemon.
//
// The host and the devices have a thread each, because a driver may hang. docs/design/telemetry.md
// lists the metrics.
#pragma once

#include <vector>

#include "base/units.h"
#include "platform/host/launch_spec.h"
#include "platform/spool/telemetry_item.h"
#include "platform/telemetry/device_sources.h"
#include "platform/telemetry/reader.h"

namespace lockstep::agent {

struct WatchedNode {
  int rank = 0;  // the first of the node
  std::vector<telemetry::GpuOfRun> gpus{};
  Duration interval{};
};
WatchedNode watched_node(const host::LaunchSpec& launch);

class TelemetryWatch {
 public:
  explicit TelemetryWatch(WatchedNode node);

  // The readings since the last call. Returns at once.
  std::vector<spool::TelemetryItem> take();

 private:
  void log_hanging_devices();

  const int rank_;
  telemetry::Reader host_;
  telemetry::Reader devices_;
  bool hangs_ = false;
};

}  // namespace lockstep::agent

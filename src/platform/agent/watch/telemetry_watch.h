// TelemetryWatch: readings of the node's host and of the run's devices, as items for the daemon.
//
// The host and the devices have a thread each, because a driver may hang. docs/design/telemetry.md
// lists the metrics.
#pragma once

#include <vector>

#include "base/units.h"
#include "platform/host/launch_spec.h"
#include "platform/spool/telemetry_item.h"
#include "platform/telemetry/reader.h"

namespace lockstep::agent {

class TelemetryWatch {
 public:
  explicit TelemetryWatch(const host::LaunchSpec& launch);

  // The readings since the last call. Returns at once.
  std::vector<spool::TelemetryItem> take();

 private:
  void log_hanging_devices();

  const int rank_;  // the first of the node
  telemetry::Reader host_;
  telemetry::Reader devices_;
  bool hangs_ = false;
};

}  // namespace lockstep::agent

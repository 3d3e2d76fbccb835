#include "platform/agent/watch/telemetry_watch.h"

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>

#include "base/log.h"
#include "map/discover/nvml.h"
#include "platform/telemetry/host_sources.h"

namespace lockstep::agent {
namespace {

constexpr Duration kHangMin = std::chrono::seconds(10);  // that is worth a line of the agent's log

// None if the devices are cores.
std::vector<telemetry::GpuOfRun> gpus_of(const host::LaunchSpec& launch) {
  std::vector<telemetry::GpuOfRun> gpus;
  const bool are_named = launch.device_uuids.size() == launch.devices.size();
  for (std::size_t i = 0; launch.gpus && i < launch.devices.size(); ++i)
    gpus.push_back({launch.devices[i], are_named ? launch.device_uuids[i] : ""});
  return gpus;
}

spool::TelemetryItem item_of(telemetry::Sample sample, int rank) {
  const auto step = std::chrono::round<std::chrono::seconds>(sample.time.time_since_epoch());
  return {.kind = spool::TelemetryKind::telemetry,
          .rank = rank,
          .step = step.count(),
          .time = sample.time,
          .values = std::move(sample.readings)};
}

}  // namespace

WatchedNode watched_node(const host::LaunchSpec& launch) {
  return {launch.first_rank, gpus_of(launch), launch.telemetry_interval};
}

TelemetryWatch::TelemetryWatch(WatchedNode node)
    : rank_(node.rank),
      host_([] { return telemetry::host_sources(); }, node.interval),
      devices_([gpus = std::move(
                    node.gpus)] { return telemetry::device_sources(gpus, map::kNvmlLibrary); },
               node.interval) {}

std::vector<spool::TelemetryItem> TelemetryWatch::take() {
  std::vector<spool::TelemetryItem> items;
  for (telemetry::Reader* reader : {&host_, &devices_})
    for (telemetry::Sample& sample : reader->take())
      items.push_back(item_of(std::move(sample), rank_));
  log_hanging_devices();
  return items;
}

void TelemetryWatch::log_hanging_devices() {
  const bool hangs = devices_.hanging() >= kHangMin;
  if (std::exchange(hangs_, hangs) == hangs) return;
  if (hangs)
    LS_LOG(warning, "the driver of the devices has not answered for {}: their telemetry is missing",
           text(kHangMin));
  else
    LS_LOG(info, "the driver of the devices answers again");
}

}  // namespace lockstep::agent

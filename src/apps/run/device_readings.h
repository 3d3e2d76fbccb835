// The last readings of the devices and hosts of runs, from their telemetry.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "platform/api/messages.h"
#include "platform/client/client.h"
#include "text/record.h"

namespace lockstep::cli {

// A value that is unknown, or is older than a minute, is absent.
struct DeviceReading {
  std::string host;
  int device = 0;
  std::string run;
  std::optional<double> utilization{}, memory_used{}, memory_total{}, power{}, temperature{};

  static constexpr auto fields() {
    return record<DeviceReading>(
        field("host", &DeviceReading::host, "where it is"),
        field("device", &DeviceReading::device, "its number on the host"),
        field("run", &DeviceReading::run, "that holds it"),
        field("utilization_percent", &DeviceReading::utilization,
              "the share of the time in which a kernel ran"),
        field("memory_used_bytes", &DeviceReading::memory_used, "of its memory"),
        field("memory_total_bytes", &DeviceReading::memory_total, "its memory"),
        field("power_watts", &DeviceReading::power, "that it takes"),
        field("temperature_celsius", &DeviceReading::temperature, "of its chip"));
  }
};

// The readings of a node's devices, from its telemetry.
std::vector<DeviceReading> device_readings(const api::SeriesList& telemetry, Time now);

// Reads the newest attempt's nodes, `nodes_max` at most, with a call for each.
Result<std::vector<DeviceReading>> read_devices(client::Client& client, const api::RunView& run,
                                                std::size_t nodes_max);

}  // namespace lockstep::cli

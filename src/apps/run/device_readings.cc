#include "apps/run/device_readings.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <map>
#include <string_view>

#include "apps/cli/subcommand.h"
#include "base/clock.h"

namespace lockstep::cli {
namespace {

constexpr Duration kReadingAgeMax = std::chrono::minutes(1);
constexpr std::string_view kDevice = "device";

std::optional<double>* value_named(DeviceReading& reading, std::string_view name) {
  if (name == "utilization_percent") return &reading.utilization;
  if (name == "memory_used_bytes") return &reading.memory_used;
  if (name == "memory_total_bytes") return &reading.memory_total;
  if (name == "power_watts") return &reading.power;
  if (name == "temperature_celsius") return &reading.temperature;
  return nullptr;
}

}  // namespace

std::vector<DeviceReading> device_readings(const api::SeriesList& telemetry, Time now) {
  std::map<int, DeviceReading> devices;
  for (const api::Series& series : telemetry.series) {
    std::string_view name = series.name;
    if (!name.starts_with(kDevice) || series.points.empty()) continue;
    name.remove_prefix(kDevice.size());
    int number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    name.remove_prefix(static_cast<std::size_t>(end - name.data()));
    if (error != std::errc() || !name.starts_with('/')) continue;
    DeviceReading& reading = devices[number];
    reading.device = number;
    const api::Point& last = series.points.back();
    std::optional<double>* value = value_named(reading, name.substr(1));
    if (value != nullptr && std::isfinite(last.value) && now - last.time <= kReadingAgeMax)
      *value = last.value;
  }
  std::vector<DeviceReading> all;
  for (auto& [ignored, reading] : devices) all.push_back(std::move(reading));
  return all;
}

Result<std::vector<DeviceReading>> read_devices(client::Client& client, const api::RunView& run,
                                                std::size_t nodes_max) {
  const model::RunId id = TRY(run_argument(run.id));
  std::vector<DeviceReading> all;
  if (run.attempts.empty()) return all;
  const auto& nodes = run.attempts.back().nodes;
  for (std::size_t i = 0; i < std::min(nodes.size(), nodes_max); ++i) {
    api::MetricsQuery query;
    query.node = nodes[i].index;
    query.pixels = 1;
    const auto telemetry = TRY(client.call(api::kMetrics, {.path = id, .query = query}));
    for (DeviceReading& reading : device_readings(telemetry, SystemClock().now())) {
      reading.host = nodes[i].host;
      reading.run = run.id;
      all.push_back(std::move(reading));
    }
  }
  return all;
}

}  // namespace lockstep::cli

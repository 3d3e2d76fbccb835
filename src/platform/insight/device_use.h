// DeviceUse: the energy of runs, the idle time of their devices and the FLOPs of their models,
// summed by run and month as the readings come. docs/design/findings.md has the rules.
//
// The sums and the last reading of each device are written in the transaction that stores the
// items, so that each item is counted once, also across a restart.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "platform/core/model/ids.h"
#include "platform/spool/telemetry_item.h"
#include "platform/store/database.h"

namespace lockstep::insight {

// None is unknown.
struct DeviceUse {
  std::optional<double> device_joules{}, host_joules{};
  // Summed over devices, as far as their utilization is known.
  std::optional<double> device_seconds{}, idle_seconds{};
  std::optional<double> flops{};
  // FLOPs of the steps whose possible FLOPs are known, and these.
  std::optional<double> flops_timed{}, flops_possible{};

  bool operator==(const DeviceUse&) const = default;
};

enum class UseColumn { project, user, run, month };
constexpr auto enum_names(UseColumn) {
  return names<UseColumn>({{UseColumn::project, "project"},
                           {UseColumn::user, "user"},
                           {UseColumn::run, "run"},
                           {UseColumn::month, "month"}});
}
struct UseFilter {
  std::optional<std::vector<std::string>> projects{};  // only these
  std::optional<model::RunId> run{};
  std::optional<std::string> user{}, month{};
  std::vector<UseColumn> by{};
};
// Empty columns are not divided by.
struct UseSum {
  std::string project{}, user{}, run{}, month{};
  DeviceUse use{};
};

// Within a transaction: adds what new items of a node bring. `host_share` is the node's share of
// its host's devices.
Result<void> add_device_use(store::Database& database, const model::NodeId& node,
                            std::span<const spool::TelemetryItem> items, double host_share);

// In the order of their columns.
Result<std::vector<UseSum>> device_use(store::Database& database, const UseFilter& filter);

}  // namespace lockstep::insight

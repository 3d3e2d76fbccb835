// Needs: what each node of a run requires of its host besides a number of devices.
#pragma once

#include <optional>

#include "base/units.h"
#include "map/map.h"
#include "text/record.h"

namespace lockstep::model {

struct Needs {
  int cores = 0;                          // CPU cores for this node alone
  Bytes memory{};                         // main memory for this node alone
  std::optional<map::DeviceKind> kind{};  // of all devices of the host
  Bytes device_memory{};                  // minimum for each device of the host
  auto operator<=>(const Needs&) const = default;

  static constexpr auto fields() {
    return record<Needs>(
        field("cores", &Needs::cores, "CPU cores on each node; 0: none of its own"),
        field("memory", &Needs::memory, "main memory on each node, such as 64 GiB; 0: any"),
        field("kind", &Needs::kind, "devices of this kind only; null: any"),
        field("device_memory", &Needs::device_memory, "of each device at least; 0: any"));
  }
};

// The needs that depend on the hardware only, not on other runs of the host.
inline Needs hardware_needs(const Needs& needs) {
  return {.kind = needs.kind, .device_memory = needs.device_memory};
}

}  // namespace lockstep::model

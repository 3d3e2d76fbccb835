// Needs: what each node of a run asks of its host beside a number of devices.
#pragma once

#include <optional>

#include "base/units.h"
#include "map/map.h"
#include "text/record.h"

namespace lockstep {

struct Needs {
  int cores = 0;                     // CPU cores that are its own
  Bytes memory{};                    // main memory, likewise
  std::optional<DeviceKind> kind{};  // of all the host's devices
  Bytes device_memory{};             // that each of the host's devices has at least
  auto operator<=>(const Needs&) const = default;

  static constexpr auto fields() {
    return record<Needs>(
        field("cores", &Needs::cores, "CPU cores on each node; 0: none of its own"),
        field("memory", &Needs::memory, "main memory on each node, such as 64 GiB; 0: any"),
        field("kind", &Needs::kind, "devices of this kind only; null: any"),
        field("device_memory", &Needs::device_memory, "of each device at least; 0: any"));
  }
};

// What a host has or has not, whoever is on it.
inline Needs fixed_part(const Needs& needs) {
  return {.kind = needs.kind, .device_memory = needs.device_memory};
}

}  // namespace lockstep

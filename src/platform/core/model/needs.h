// Needs: what each node of a run requires of its host besides a number of devices. Where the host
// can limit them, a node gets no more cores and memory than that (docs/design/isolation.md).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "map/labels.h"
#include "map/map.h"
#include "text/record.h"

namespace lockstep::model {

inline constexpr int kCoresMax = 100'000;

struct Needs {
  int cores = 0;                          // CPU cores for this node alone
  Bytes memory{};                         // main memory for this node alone
  std::optional<map::DeviceKind> kind{};  // of all devices of the host
  Bytes device_memory{};                  // minimum for each device of the host
  std::optional<map::Labels> labels{};    // that the host has; none: whichever
  // They are of taints of hosts. placement_needs() takes them from the section `kubernetes`.
  std::vector<std::string> tolerations{};
  auto operator<=>(const Needs&) const = default;

  static constexpr auto fields() {
    return record<Needs>(
        between(0, kCoresMax,
                field("cores", &Needs::cores, "CPU cores of each node for the run alone")),
        field("memory", &Needs::memory,
              "main memory of each node for the run alone, such as 64 GiB"),
        field("kind", &Needs::kind, "only devices of this kind"),
        field("device_memory", &Needs::device_memory,
              "memory that each device has at least, such as 40 GiB"),
        field("labels", &Needs::labels, "only hosts with these labels, such as rack: a3"));
  }
};

// The needs that depend on the host only, not on other runs there.
inline Needs hardware_needs(const Needs& needs) {
  return {.kind = needs.kind,
          .device_memory = needs.device_memory,
          .labels = needs.labels,
          .tolerations = needs.tolerations};
}

}  // namespace lockstep::model

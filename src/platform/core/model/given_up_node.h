// A node whose attempt ended without it: the node was to be killed, and its host could not be
// asked. Its processes may still run. So its devices stay allocated until it is known to be gone
// (docs/design/attempts.md).
#pragma once

#include <optional>
#include <string>

#include "base/units.h"
#include "platform/core/model/host_devices.h"
#include "platform/core/model/ids.h"

namespace lockstep::model {

struct GivenUpNode {
  NodeId id;
  std::string generation{};  // of its attempt
  std::string engine{};      // that started it
  HostDevices devices{};
  Time since{};
  Time last_call{};  // of its agent
  // So long after that call its agent has ended its processes. None: maybe never.
  std::optional<Duration> gone_after{};
  std::optional<Time> kill_requested_at{};  // when the last forced kill was requested
  bool gone = false;                        // the row is removed

  bool operator==(const GivenUpNode&) const = default;
};

// The id under which the devices of a run's given-up nodes are allocated: "given-up node of
// demo/42". No project name has a space.
RunId given_up_allocation_id(const RunId& run);
// In the same way "hosts of demo/42": those that an engine has chosen for the run.
RunId unplaced_allocation_id(const RunId& run);

}  // namespace lockstep::model

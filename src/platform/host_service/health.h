// The health of a host: checks of its inventory. Pure, so that a daemon and a command apply the
// same ones to a host elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/units.h"
#include "platform/api/host_messages.h"

namespace lockstep::host_service {

struct HealthLimits {
  // Free in each folder that Lockstep writes to; on a small disk a tenth of it is enough.
  Bytes disk_free_min = 1_GiB;
  std::int64_t memory_shares = 50;  // one of so many must be available: 2 %
  Duration clock_offset_max = std::chrono::seconds(2);
};

// Times of another clock between which the inventory was taken. Equal times: it is known exactly.
struct ClockReference {
  Time earliest{};
  Time latest{};
};

// Negative: the clock is behind. 0 if it is within the reference.
Duration clock_offset(Time clock, const ClockReference& reference);

// Ordered by kind. A value that is unknown is no problem. Without a reference the clock is not
// checked.
std::vector<api::HostProblem> check_health(const api::HostInventory& inventory,
                                           const std::optional<ClockReference>& reference = {},
                                           const HealthLimits& limits = {});

}  // namespace lockstep::host_service

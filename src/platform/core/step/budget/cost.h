// The cost of a run in weighted device-minutes, for its user: what it was charged, and what it is
// charged if it runs until its time limit. docs/design/budgets.md has the rules.
#pragma once

#include <vector>

#include "platform/core/budget/device_time.h"
#include "platform/core/model/host_devices.h"
#include "platform/core/model/state.h"

namespace lockstep::step {

struct RunCost {
  budget::DeviceTime so_far{};    // its live attempt included, as if all of it were charged
  budget::DeviceTime at_limit{};  // at the end of its time limit; of an ended run: so_far
};

// Without devices, a run is taken to get those of the least weight on the map.
RunCost cost_of(const model::State& state, const model::Run& run, Time now);
// The cost of a new run on these devices; none: as above.
budget::DeviceTime cost_at_limit(const model::State& state, const model::RunSpec& spec,
                                 const std::vector<model::HostDevices>& devices);

}  // namespace lockstep::step

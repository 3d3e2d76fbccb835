// The daemon's settings in simulations: shorter than its defaults, since a simulation lasts for
// half an hour.
#pragma once

#include <chrono>

#include "platform/core/model/settings/settings.h"

namespace lockstep::sim {

inline model::Settings simulated_settings() {
  model::Settings settings;
  settings.lost_after = std::chrono::minutes(2);
  settings.widespread_lost_after = std::chrono::minutes(10);
  settings.budget_window = std::chrono::minutes(1);
  settings.personal_refill = 1200;  // device-minutes in an hour, of the seeds that use them
  settings.personal_cap = 10;
  settings.personal_timeout_max = std::chrono::minutes(10);
  settings.lease = Duration(0);  // the simulated engine gives up no node
  return settings;
}

}  // namespace lockstep::sim

// Faults of the simulated engines.
#pragma once

#include "base/units.h"

namespace lockstep::sim {

struct EngineFaults {
  bool starts_fail = false;  // each start fails, and nothing is started
  bool list_fails = false;   // the nodes cannot be listed
  Duration slow{};           // each start, kill and list takes up to that long; zero: no delay

  bool any() const { return starts_fail || list_fails || slow > Duration(0); }
};

}  // namespace lockstep::sim

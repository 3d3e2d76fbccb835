// The parts of simulated maps.
#pragma once

#include <string>
#include <vector>

#include "map/map.h"

namespace lockstep::sim {

// A host with these devices, by their numbers on the machine.
inline map::Host host_with(const std::string& id, const std::vector<int>& numbers) {
  map::Host host;
  host.id = id;
  for (const int number : numbers)
    host.islands.emplace_back().devices.push_back({map::DeviceKind::gpu, number, {}, false});
  return host;
}

// The numbers on the machine of devices that rows name by their index; without those that the host
// does not have on this map.
std::vector<int> device_numbers(const map::ClusterMap& map, const std::string& host,
                                const std::vector<int>& indices);

}  // namespace lockstep::sim

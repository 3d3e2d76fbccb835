// HostAllocations: the devices that one run holds, by host.
#pragma once

#include <boost/container/small_vector.hpp>

#include "base/units.h"
#include "platform/core/sched/capacity/host_table.h"

namespace lockstep::sched {

// Devices of one host, by its position in the map, with the cores and memory of the node.
struct HostAllocation {
  int host = 0;
  int cores = 0;
  Bytes memory{};
  boost::container::small_vector<int, 8> devices{};  // indices, ascending
};
inline NodeResources resources_of(const HostAllocation& taken) {
  return {static_cast<int>(taken.devices.size()), taken.cores, taken.memory};
}

// Most runs hold devices of one host.
using HostAllocations = boost::container::small_vector<HostAllocation, 1>;

}  // namespace lockstep::sched

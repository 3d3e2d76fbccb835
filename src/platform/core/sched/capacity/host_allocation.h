// HostAllocations: the devices that one run holds, by host. Most runs hold devices of one host:
// that one is stored in place, so thousands of runs need no heap memory for it.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "base/units.h"
#include "platform/core/sched/capacity/device_set.h"
#include "platform/core/sched/capacity/host_table.h"

namespace lockstep {

// Devices of one host, by its position in the map, with the cores and memory of the node.
struct HostAllocation {
  int host = 0;
  int cores = 0;
  Bytes memory{};
  DeviceSet devices{};
};
inline NodeResources resources_of(const HostAllocation& taken) {
  return {static_cast<int>(taken.devices.size()), taken.cores, taken.memory};
}

class HostAllocations {
 public:
  void reserve(std::size_t count) {
    if (count > 1) more_.reserve(count);
  }
  void push_back(HostAllocation taken) {
    if (size_ == 0) {
      one_ = std::move(taken);
    } else {
      if (size_ == 1) more_.push_back(std::move(one_));
      more_.push_back(std::move(taken));
    }
    ++size_;
  }
  std::size_t size() const { return size_; }
  const HostAllocation* begin() const { return size_ > 1 ? more_.data() : &one_; }
  const HostAllocation* end() const { return begin() + size_; }
  const HostAllocation* data() const { return begin(); }
  const HostAllocation& front() const { return *begin(); }

 private:
  std::size_t size_ = 0;
  HostAllocation one_{};
  std::vector<HostAllocation> more_;  // all of them, if there are several
};

}  // namespace lockstep

// DeviceAllocator: which devices of the map are allocated, which hosts are open, and the free
// capacity.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "platform/core/model/host_state.h"
#include "platform/core/sched/capacity/free_capacity.h"
#include "platform/core/sched/capacity/host_allocation.h"
#include "platform/core/sched/policy.h"

namespace lockstep::sched {

class DeviceAllocator {
 public:
  explicit DeviceAllocator(const HostTable& table);  // outlives it

  const FreeCapacity& free_capacity() const { return free_capacity_; }
  // Limited to hosts that meet these needs.
  FreeCapacity free_capacity_for(const model::Needs& needs) const {
    return restricted_to(needs, free_capacity_);
  }
  bool fits(const Gang& gang) const;
  // Chooses hosts for the gang, avoided ones only if it fits nowhere else; empty if it has to wait.
  std::vector<int> choose(const Gang& gang, Fit fit) const;

  // Allocates the lowest free devices of each host, as many as the shape needs on the i-th.
  HostAllocations allocate(const Shape& shape, std::span<const int> hosts);
  // Allocates these devices, except those that the map lacks or that are not free.
  HostAllocations allocate(std::span<const model::HostDevices> slices, const model::Needs& needs);
  void deallocate(const HostAllocations& taken);
  std::vector<model::HostDevices> with_host_names(const HostAllocations& taken) const;

  // `why` is one clause for users.
  void set_host_state(int host, model::HostState state, std::string why);
  model::HostState state(int host) const { return states_[as_index(host)]; }
  bool is_open(int host) const {
    return state(host) == model::HostState::open || state(host) == model::HostState::avoided;
  }
  const std::string& state_reason(int host) const { return state_reasons_[as_index(host)]; }
  const std::vector<int>& drained_hosts() const { return drained_; }  // ascending

 private:
  HostAllocation allocate_lowest(int host, const NodeResources& load);
  HostAllocation mark_allocated(int host, std::span<const int> devices);
  // Range of a host's devices in allocated_.
  struct DeviceRange {
    std::size_t first = 0;
    int capacity = 0;
  };
  std::size_t device_index(int host, int device) const {
    return device_ranges_[as_index(host)].first + as_index(device);
  }

  const HostTable& table_;
  FreeCapacity free_capacity_;
  std::vector<DeviceRange> device_ranges_;  // by host
  std::vector<bool> allocated_;             // by device, host after host
  std::vector<model::HostState> states_;    // by host
  std::vector<std::string> state_reasons_;  // by host
  std::vector<int> avoided_, drained_;      // hosts, ascending
};

}  // namespace lockstep::sched

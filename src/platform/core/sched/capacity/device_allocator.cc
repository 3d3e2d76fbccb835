#include "platform/core/sched/capacity/device_allocator.h"

#include <utility>

#include "platform/core/sched/capacity/choose_hosts.h"

namespace lockstep::sched {
namespace {

// Keeps the hosts ascending and unique.
void set_membership(std::vector<int>& hosts, int host, bool is_in) {
  std::erase(hosts, host);
  if (is_in) hosts.insert(std::ranges::lower_bound(hosts, host), host);
}

}  // namespace

DeviceAllocator::DeviceAllocator(const HostTable& table)
    : table_(table),
      free_capacity_(table),
      allocated_(static_cast<std::size_t>(table.devices), false),
      states_(as_index(table.host_count()), model::HostState::open),
      state_reasons_(as_index(table.host_count())) {
  std::size_t first = 0;
  device_ranges_.reserve(table.capacity.size());
  for (int capacity : table.capacity) {
    device_ranges_.push_back({first, capacity});
    first += as_index(capacity);
  }
}

bool DeviceAllocator::fits(const Gang& gang) const {
  if (gang.shape.needs == model::Needs{}) return free_capacity_.fits(gang);
  return free_capacity_for(gang.shape.needs).fits(gang);
}

std::vector<int> DeviceAllocator::choose(const Gang& gang, Fit fit) const {
  if (gang.shape.needs == model::Needs{} && avoided_.empty())
    return choose_hosts(free_capacity_, gang, fit);
  const FreeCapacity any = free_capacity_for(gang.shape.needs);
  FreeCapacity trusted = any;
  for (int host : avoided_) trusted.close(host);
  auto hosts = choose_hosts(trusted, gang, fit);
  return hosts.empty() ? choose_hosts(any, gang, fit) : hosts;
}

HostAllocations DeviceAllocator::allocate(const Shape& shape, std::span<const int> hosts) {
  HostAllocations taken;
  taken.reserve(hosts.size());
  for (std::size_t i = 0; i < hosts.size(); ++i)
    taken.push_back(allocate_lowest(hosts[i], resources_on(shape, i)));
  return taken;
}

HostAllocations DeviceAllocator::allocate(std::span<const model::HostDevices> slices,
                                          const model::Needs& needs) {
  HostAllocations taken;
  taken.reserve(slices.size());
  for (const model::HostDevices& host_devices : slices) {
    const auto host = table_.find(host_devices.host);
    if (!host) continue;
    HostAllocation part = mark_allocated(*host, host_devices.devices);
    part.cores = needs.cores;
    part.memory = needs.memory;
    free_capacity_.subtract(*host, resources_of(part));
    taken.push_back(std::move(part));
  }
  return taken;
}

void DeviceAllocator::deallocate(const HostAllocations& taken) {
  for (const HostAllocation& part : taken) {
    for (const int device : part.devices) allocated_[device_index(part.host, device)] = false;
    free_capacity_.add_back(part.host, resources_of(part));
  }
}

std::vector<model::HostDevices> DeviceAllocator::with_host_names(
    const HostAllocations& taken) const {
  std::vector<model::HostDevices> slices;
  slices.reserve(taken.size());
  for (const HostAllocation& part : taken)
    slices.push_back({table_.names[as_index(part.host)],
                      std::vector<int>(part.devices.begin(), part.devices.end())});
  return slices;
}

void DeviceAllocator::set_host_state(int host, model::HostState state, std::string why) {
  states_[as_index(host)] = state;
  state_reasons_[as_index(host)] = std::move(why);
  set_membership(avoided_, host, state == model::HostState::avoided);
  set_membership(drained_, host, state == model::HostState::drained);
  if (is_open(host))
    free_capacity_.open(host);
  else
    free_capacity_.close(host);
}

HostAllocation DeviceAllocator::allocate_lowest(int host, const NodeResources& load) {
  HostAllocation taken{.host = host, .cores = load.cores, .memory = load.memory};
  int missing = load.devices;
  for (int device = 0; missing > 0; ++device) {
    if (allocated_[device_index(host, device)]) continue;
    allocated_[device_index(host, device)] = true;
    taken.devices.push_back(device);
    --missing;
  }
  free_capacity_.subtract(host, load);
  return taken;
}

// Sets only the bits of the devices.
HostAllocation DeviceAllocator::mark_allocated(int host, std::span<const int> devices) {
  HostAllocation taken{.host = host};
  const int capacity = device_ranges_[as_index(host)].capacity;
  for (int device : devices) {
    if (device < 0 || device >= capacity || allocated_[device_index(host, device)]) continue;
    allocated_[device_index(host, device)] = true;
    taken.devices.push_back(device);
  }
  return taken;
}

}  // namespace lockstep::sched

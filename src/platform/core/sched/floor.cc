#include "platform/core/sched/floor.h"

#include "platform/core/sched/place.h"

namespace lockstep {
Floor::Floor(const HostTable& table) : table_(table), room_(table) {
  busy_.reserve(table.capacity.size());
  for (int capacity : table.capacity) busy_.emplace_back(as_index(capacity), false);
}

std::vector<Taken> Floor::take(const Shape& shape, std::span<const int> hosts) {
  std::vector<Taken> taken;
  taken.reserve(hosts.size());
  for (std::size_t i = 0; i < hosts.size(); ++i)
    taken.push_back(take_lowest(hosts[i], devices_on(shape, i)));
  return taken;
}

std::vector<Taken> Floor::take(std::span<const Slice> slices) {
  std::vector<Taken> taken;
  for (const Slice& slice : slices)
    if (const auto host = table_.find(slice.host))
      taken.push_back(take_these(*host, slice.devices));
  return taken;
}

void Floor::give(std::span<const Taken> taken) {
  for (const Taken& part : taken) {
    for (int device : part.devices) busy_[as_index(part.host)][as_index(device)] = false;
    room_.give(part.host, static_cast<int>(part.devices.size()));
  }
}

std::vector<Slice> Floor::named(std::span<const Taken> taken) const {
  std::vector<Slice> slices;
  slices.reserve(taken.size());
  for (const Taken& part : taken)
    slices.push_back({table_.names[as_index(part.host)], part.devices});
  return slices;
}

Taken Floor::take_lowest(int host, int devices) {
  Taken taken{host, {}};
  taken.devices.reserve(as_index(devices));
  auto& busy = busy_[as_index(host)];
  for (int device = 0; std::ssize(taken.devices) < devices; ++device) {
    if (busy[as_index(device)]) continue;
    busy[as_index(device)] = true;
    taken.devices.push_back(device);
  }
  room_.take(host, devices);
  return taken;
}

Taken Floor::take_these(int host, std::span<const int> devices) {
  Taken taken{host, {}};
  auto& busy = busy_[as_index(host)];
  for (int device : devices) {
    if (device < 0 || as_index(device) >= busy.size() || busy[as_index(device)]) continue;
    busy[as_index(device)] = true;
    taken.devices.push_back(device);
  }
  room_.take(host, static_cast<int>(taken.devices.size()));
  return taken;
}

}  // namespace lockstep

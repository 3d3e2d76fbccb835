#include "platform/core/sched/floor.h"

#include <algorithm>
#include <utility>

#include "platform/core/sched/place.h"

namespace lockstep {
namespace {

// Ascending, and each once.
void put(std::vector<int>& hosts, int host, bool is_in) {
  std::erase(hosts, host);
  if (is_in) hosts.insert(std::ranges::lower_bound(hosts, host), host);
}

}  // namespace

Floor::Floor(const HostTable& table)
    : table_(table),
      room_(table),
      busy_(static_cast<std::size_t>(table.devices), false),
      states_(as_index(table.host_count()), HostState::open),
      whys_(as_index(table.host_count())) {
  std::size_t first = 0;
  spans_.reserve(table.capacity.size());
  for (int capacity : table.capacity) {
    spans_.push_back({first, capacity});
    first += as_index(capacity);
  }
}

bool Floor::fits(const Gang& gang) const {
  if (gang.shape.needs == Needs{}) return room_.fits(gang);
  return room_for(gang.shape.needs).fits(gang);
}

std::vector<int> Floor::choose(const Gang& gang, Fit fit) const {
  if (gang.shape.needs == Needs{} && avoided_.empty()) return choose_hosts(room_, gang, fit);
  const Room any = room_for(gang.shape.needs);
  Room trusted = any;
  for (int host : avoided_) trusted.close(host);
  auto hosts = choose_hosts(trusted, gang, fit);
  return hosts.empty() ? choose_hosts(any, gang, fit) : hosts;
}

TakenList Floor::take(const Shape& shape, std::span<const int> hosts) {
  TakenList taken;
  taken.reserve(hosts.size());
  for (std::size_t i = 0; i < hosts.size(); ++i)
    taken.push_back(take_lowest(hosts[i], load_on(shape, i)));
  return taken;
}

TakenList Floor::take(std::span<const Slice> slices, const Needs& needs) {
  TakenList taken;
  taken.reserve(slices.size());
  for (const Slice& slice : slices) {
    const auto host = table_.find(slice.host);
    if (!host) continue;
    Taken part = take_these(*host, slice.devices);
    part.cores = needs.cores;
    part.memory = needs.memory;
    room_.take(*host, load_of(part));
    taken.push_back(std::move(part));
  }
  return taken;
}

void Floor::fetch(std::span<const Slice> slices) const {
  for (const Slice& slice : slices) {
    const auto host = table_.likely(slice.host);
    if (!host) continue;
    __builtin_prefetch(&table_.names[as_index(*host)]);
    __builtin_prefetch(&spans_[as_index(*host)]);
    room_.fetch(*host);
  }
}

void Floor::give(const TakenList& taken) {
  for (const Taken& part : taken) {
    part.devices.for_each([&](int device) { busy_[place_of(part.host, device)] = false; });
    room_.give(part.host, load_of(part));
  }
}

std::vector<Slice> Floor::named(const TakenList& taken) const {
  std::vector<Slice> slices;
  slices.reserve(taken.size());
  for (const Taken& part : taken)
    slices.push_back({table_.names[as_index(part.host)], part.devices.indices()});
  return slices;
}

void Floor::set(int host, HostState state, std::string why) {
  states_[as_index(host)] = state;
  whys_[as_index(host)] = std::move(why);
  put(avoided_, host, state == HostState::avoided);
  put(drained_, host, state == HostState::drained);
  if (is_open(host))
    room_.open(host);
  else
    room_.close(host);
}

Taken Floor::take_lowest(int host, const Load& load) {
  Taken taken{.host = host, .cores = load.cores, .memory = load.memory};
  int missing = load.devices;
  for (int device = 0; missing > 0; ++device) {
    if (busy_[place_of(host, device)]) continue;
    busy_[place_of(host, device)] = true;
    taken.devices.add(device);
    --missing;
  }
  room_.take(host, load);
  return taken;
}

// Their bits alone.
Taken Floor::take_these(int host, std::span<const int> devices) {
  Taken taken{.host = host};
  const int capacity = spans_[as_index(host)].capacity;
  for (int device : devices) {
    if (device < 0 || device >= capacity || busy_[place_of(host, device)]) continue;
    busy_[place_of(host, device)] = true;
    taken.devices.add(device);
  }
  return taken;
}

}  // namespace lockstep

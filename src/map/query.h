// Queries on a Map. Hosts are identified by id, devices by host and index within it (over all
// islands, from 0), as in placements. Names that are not in the map are errors with a suggestion.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "map/map.h"

namespace lockstep::map {

// From near to far: the smallest unit that two devices have in common.
enum class Level { device, island, host, leaf, pod, cluster };
constexpr auto enum_names(Level) {
  return names<Level>({{Level::device, "device"},
                       {Level::island, "island"},
                       {Level::host, "host"},
                       {Level::leaf, "leaf"},
                       {Level::pod, "pod"},
                       {Level::cluster, "cluster"}});
}

struct DeviceRef {
  std::string host;
  int index = 0;
  auto operator<=>(const DeviceRef&) const = default;
};

// In the map's order. The pointers live as long as the map stays unchanged.
std::vector<const Host*> hosts(const ClusterMap& map);
std::vector<const Host*> hosts(const Pod& pod);
std::vector<const Device*> devices(const Host& host);
std::size_t device_count(const Host& host);
// True if an index names the same device on both.
bool has_same_devices(const Host& a, const Host& b);
// The devices that had these numbers on the machine when they were at `indices`, by their indices
// now; without those that are gone. Without numbers: as they were.
std::vector<int> current_indices(const Host& host, const std::vector<int>& indices,
                                 const std::vector<int>& numbers);
std::size_t device_count(const ClusterMap& map);

// Null if there is none.
const Host* find_host(const ClusterMap& map, std::string_view id);

// The engine of the pod with this host; empty: no such host, or the only engine.
std::string engine_of(const ClusterMap& map, std::string_view host);
// True if its pods have more than one engine.
bool has_several_engines(const ClusterMap& map);

// The name shown to users, and the address for other hosts.
const std::string& name_of(const Host& host);
const std::string& address_of(const Host& host);

Result<Level> common_level(const ClusterMap& map, const DeviceRef& a, const DeviceRef& b);

// From one to the other: least bandwidth and summed latency of the links on the path (host to leaf,
// leaf to leaf of the same or of another pod, leaf to host); unknown if any of them is. A device
// with itself: no latency, no bandwidth.
Result<LinkSpeed> link_between(const ClusterMap& map, const DeviceRef& a, const DeviceRef& b);

}  // namespace lockstep::map

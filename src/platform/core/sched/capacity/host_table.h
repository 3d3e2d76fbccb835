// HostTable: the map as arrays, with hosts and pods by their position; and the shape of gangs.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "map/map.h"
#include "platform/core/sched/capacity/name_map.h"
#include "platform/core/sched/plan.h"

namespace lockstep::sched {

// Positions and counts are int; arrays are indexed by this.
inline std::size_t as_index(int position) { return static_cast<std::size_t>(position); }

struct HostTable {
  // Other properties of a host. A property that the map does not give is unbounded.
  struct Traits {
    int cores = 0;
    Bytes memory{};
    std::optional<map::DeviceKind> kind{};  // of all its devices; none: they differ
    Bytes device_memory{};                  // of the smallest
    map::Labels labels{};
    bool has_taints = false;  // among the labels
  };
  // Its hosts are first, first + 1, ... up to but excluding end.
  struct PodRange {
    int first = 0;
    int end = 0;
  };

  using CountsPod = std::function<bool(const map::Pod&)>;

  explicit HostTable(const map::ClusterMap& map, MapGrowth map_growth = MapGrowth::none);
  // The hosts of the pods that count, without a copy of the map.
  HostTable(const map::ClusterMap& map, const CountsPod& counts,
            MapGrowth map_growth = MapGrowth::none);
  std::optional<int> find(std::string_view host) const;
  int host_count() const { return static_cast<int>(names.size()); }
  int pod_count() const { return static_cast<int>(pods.size()); }
  // The kinds of devices on hosts that have one kind only.
  std::set<map::DeviceKind> kinds() const;

  std::vector<std::string> names;  // by host
  std::vector<int> capacity;       // by host, in devices
  std::vector<Traits> traits;      // by host
  std::vector<int> pod_of;         // by host
  std::vector<PodRange> pods;
  int devices_per_host_max = 0;  // on one host
  std::int64_t devices = 0;
  MapGrowth growth = MapGrowth::none;
  // False: a gang stays in one pod, because no engine starts a gang on the hosts of two engines.
  bool spreads = true;
  // False: all devices of a gang are of one kind.
  bool mixes_kinds = true;

 private:
  void add(const map::Host& host);

  NameMap<int> by_name_;
};

// The EngineHosts. One job asks for devices of one kind, and each kind may have a partition.
HostTable engine_host_table(HostTable table);

// The requirements of a run. Runs of the same shape fit the same hosts.
struct Shape {
  int nodes = 1;
  int devices = 1;
  int remainder = 0;
  model::Needs needs{};  // of each node
  auto operator<=>(const Shape&) const = default;
};
inline Shape shape_of(const PendingRun& pending) {
  return {pending.nodes, pending.devices, pending.remainder, pending.needs};
}
inline std::int64_t device_count(const Shape& shape) {
  return std::int64_t{shape.nodes} * shape.devices + shape.remainder;
}

// The resources that a node takes on its host.
struct NodeResources {
  int devices = 0;
  int cores = 0;
  Bytes memory{};
};
// On the i-th host of a gang: first come its nodes, then the remainder.
inline NodeResources resources_on(const Shape& shape, std::size_t i) {
  const int devices = static_cast<int>(i) < shape.nodes ? shape.devices : shape.remainder;
  return {devices, shape.needs.cores, shape.needs.memory};
}

// Where a gang may be placed: in one pod; over several, because none is large enough; nowhere while
// hosts that it needs are closed; nowhere at all, because the map is too small.
enum class PlacementScope { one_pod, several_pods, hosts_closed, impossible };
inline bool can_be_placed(PlacementScope scope) {
  return scope == PlacementScope::one_pod || scope == PlacementScope::several_pods;
}

struct Gang {
  Shape shape;
  PlacementScope scope = PlacementScope::one_pod;
  PlacementScope at_engine = PlacementScope::impossible;  // among the EngineHosts, if there are any
};

}  // namespace lockstep::sched

// The map in numbers, for a pass: hosts and pods by their position in it, and what gangs need.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "map/map.h"
#include "platform/core/sched/plan.h"
#include "platform/core/sched/slot_index.h"

namespace lockstep {

// Positions and counts are int; arrays are indexed by this.
inline std::size_t as_index(int position) { return static_cast<std::size_t>(position); }

struct HostTable {
  // What else a host has. What the map does not know of it is no bound.
  struct Traits {
    int cores = 0;
    Bytes memory{};
    std::optional<DeviceKind> kind{};  // of all its devices; none: they differ
    Bytes device_memory{};             // of the smallest
  };
  // Its hosts are first, first + 1, ... up to, not with, end.
  struct PodRange {
    int first = 0;
    int end = 0;
  };

  explicit HostTable(const Map& map);
  std::optional<int> find(std::string_view host) const;
  // The one that find() looks at first, if any; and before that: it will be asked for soon.
  std::optional<int> likely(std::string_view host) const { return by_name_.likely(hash_of(host)); }
  void fetch(std::string_view host) const { by_name_.fetch(hash_of(host)); }
  int host_count() const { return static_cast<int>(names.size()); }
  int pod_count() const { return static_cast<int>(pods.size()); }

  std::vector<std::string> names;  // by host
  std::vector<int> capacity;       // by host, in devices
  std::vector<Traits> traits;      // by host
  std::vector<int> pod_of;         // by host
  std::vector<PodRange> pods;
  int most_devices = 0;  // on one host
  std::int64_t devices = 0;

 private:
  void add(const Host& host);

  SlotIndex by_name_;
};

// What a run needs of the map. Runs of one shape fit alike.
struct Shape {
  int nodes = 1;
  int devices = 1;
  int remainder = 0;
  Needs needs{};  // of each node
  auto operator<=>(const Shape&) const = default;
};
inline Shape shape_of(const Want& want) {
  return {want.nodes, want.devices, want.remainder, want.needs};
}
inline std::int64_t device_count(const Shape& shape) {
  return std::int64_t{shape.nodes} * shape.devices + shape.remainder;
}

// What a node takes of its host.
struct Load {
  int devices = 0;
  int cores = 0;
  Bytes memory{};
};
// On the i-th host of those that a gang takes, which are its nodes', and then the remainder's.
inline Load load_on(const Shape& shape, std::size_t i) {
  const int devices = static_cast<int>(i) < shape.nodes ? shape.devices : shape.remainder;
  return {devices, shape.needs.cores, shape.needs.memory};
}

// Where a gang may be: in one pod; over several because none is large enough; nowhere as long as
// hosts are closed that it cannot do without; nowhere at all because the map is too small.
enum class Reach { pod, pods, closed, nowhere };
inline bool can_be_placed(Reach reach) { return reach == Reach::pod || reach == Reach::pods; }

struct Gang {
  Shape shape;
  Reach reach = Reach::pod;
};

}  // namespace lockstep

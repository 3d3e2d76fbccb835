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

namespace lockstep {

// Positions and counts are int; arrays are indexed by this.
inline std::size_t as_index(int position) { return static_cast<std::size_t>(position); }

struct HostTable {
  // Its hosts are first, first + 1, ... up to, not with, end.
  struct PodRange {
    int first = 0;
    int end = 0;
  };

  explicit HostTable(const Map& map);
  std::optional<int> find(std::string_view host) const;
  int host_count() const { return static_cast<int>(names.size()); }
  int pod_count() const { return static_cast<int>(pods.size()); }

  std::vector<std::string> names;  // by host
  std::vector<int> capacity;       // by host, in devices
  std::vector<int> pod_of;         // by host
  std::vector<PodRange> pods;
  int most_devices = 0;  // on one host
  std::int64_t devices = 0;

 private:
  std::vector<int> by_name_;
};

// What a run needs of the map. Runs of one shape fit alike.
struct Shape {
  int nodes = 1;
  int devices = 1;
  int remainder = 0;
  auto operator<=>(const Shape&) const = default;
};
inline Shape shape_of(const Want& want) { return {want.nodes, want.devices, want.remainder}; }
inline std::int64_t device_count(const Shape& shape) {
  return std::int64_t{shape.nodes} * shape.devices + shape.remainder;
}

// Where a gang may be: in one pod, over several because none is large enough, or nowhere because
// the map is too small.
enum class Reach { pod, pods, nowhere };

struct Gang {
  Shape shape;
  Reach reach = Reach::pod;
};

}  // namespace lockstep

// Ground: the hosts of the map, and whether a gang fits on what is free of them, counted host by
// host without the pass' own means.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "map/map.h"
#include "platform/core/model/run.h"

namespace lockstep::sim {

class Ground {
 public:
  using Free = std::vector<int>;  // devices, by host

  explicit Ground(const Map& map);

  std::optional<std::size_t> find(const std::string& host) const;
  int pod_of(std::size_t host) const { return pods_[host]; }
  // When nobody holds any.
  const Free& all() const { return all_; }
  int device_count() const { return devices_; }

  // Some pod is large enough when it is empty: then the gang stays in one.
  bool stays_in_one_pod(const RunSpec& spec) const { return fits_in_a_pod(spec, all_); }
  bool fits(const RunSpec& spec, const Free& free) const;

 private:
  bool fits_in_a_pod(const RunSpec& spec, const Free& free) const;

  std::map<std::string, std::size_t> hosts_;  // by name
  std::vector<int> pods_;                     // by host
  Free all_;
  int pod_count_ = 0;
  int devices_ = 0;
};

}  // namespace lockstep::sim

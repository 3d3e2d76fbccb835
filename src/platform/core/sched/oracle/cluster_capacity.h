// ClusterCapacity: the hosts of the map. It checks whether a gang fits on free devices, counted
// host by host without the code of the scheduling pass.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "map/map.h"
#include "platform/core/sched/plan.h"

namespace lockstep::sched {

class ClusterCapacity {
 public:
  using FreeDevices = std::vector<int>;  // devices, by host

  explicit ClusterCapacity(const map::ClusterMap& map);

  std::optional<std::size_t> find(const std::string& host) const;
  int pod_of(std::size_t host) const { return pods_[host]; }
  // The free devices when no run holds any.
  const FreeDevices& all_free() const { return all_free_; }
  int device_count() const { return devices_; }

  // If some pod is large enough when it is empty, the gang stays in one pod.
  bool stays_in_one_pod(const PendingRun& run) const { return fits_in_a_pod(run, all_free_); }
  bool fits(const PendingRun& run, const FreeDevices& free) const;

 private:
  bool fits_in_a_pod(const PendingRun& run, const FreeDevices& free) const;

  std::map<std::string, std::size_t> hosts_;  // by name
  std::vector<int> pods_;                     // by host
  FreeDevices all_free_;
  int pod_count_ = 0;
  int devices_ = 0;
  bool has_several_engines_ = false;  // no gang is in two pods
};

}  // namespace lockstep::sched

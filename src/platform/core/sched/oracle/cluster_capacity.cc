#include "platform/core/sched/oracle/cluster_capacity.h"

#include <algorithm>
#include <numeric>

#include "map/query.h"

namespace lockstep::sched {
namespace {

// Hosts with enough free devices for a node of a gang, and for its remainder, which is smaller.
struct FittingHosts {
  int nodes = 0;
  int remainders = 0;
  void count(int free, const PendingRun& run) {
    nodes += free >= run.devices ? 1 : 0;
    remainders += free >= run.remainder ? 1 : 0;
  }
  bool holds(const PendingRun& run) const {
    return nodes >= run.nodes && (run.remainder == 0 || remainders > run.nodes);
  }
};

}  // namespace

ClusterCapacity::ClusterCapacity(const map::ClusterMap& map)
    : has_several_engines_(map::has_several_engines(map)) {
  for (const map::Pod& pod : map.pods) {
    for (const map::Host* host : map::hosts(pod)) {
      hosts_.emplace(host->id, all_free_.size());
      pods_.push_back(pod_count_);
      all_free_.push_back(static_cast<int>(map::device_count(*host)));
    }
    ++pod_count_;
  }
  devices_ = std::accumulate(all_free_.begin(), all_free_.end(), 0);
}

std::optional<std::size_t> ClusterCapacity::find(const std::string& host) const {
  const auto found = hosts_.find(host);
  return found == hosts_.end() ? std::nullopt : std::optional(found->second);
}

bool ClusterCapacity::fits_in_a_pod(const PendingRun& run, const FreeDevices& free) const {
  std::vector<FittingHosts> pods(static_cast<std::size_t>(pod_count_));
  for (std::size_t host = 0; host < free.size(); ++host)
    pods[static_cast<std::size_t>(pods_[host])].count(free[host], run);
  return std::ranges::any_of(pods, [&](const FittingHosts& pod) { return pod.holds(run); });
}

bool ClusterCapacity::fits(const PendingRun& run, const FreeDevices& free) const {
  if (stays_in_one_pod(run) || has_several_engines_) return fits_in_a_pod(run, free);
  FittingHosts all;
  for (const int devices : free) all.count(devices, run);
  return all.holds(run);
}

}  // namespace lockstep::sched

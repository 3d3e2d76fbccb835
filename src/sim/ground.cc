#include "sim/ground.h"

#include <algorithm>
#include <numeric>

#include "map/query.h"

namespace lockstep::sim {
namespace {

// Hosts with room for a node of a gang, and for its remainder, which is smaller.
struct Roomy {
  int nodes = 0;
  int rests = 0;
  void count(int free, const RunSpec& spec) {
    nodes += free >= spec.devices ? 1 : 0;
    rests += free >= spec.remainder ? 1 : 0;
  }
  bool holds(const RunSpec& spec) const {
    return nodes >= spec.nodes && (spec.remainder == 0 || rests > spec.nodes);
  }
};

}  // namespace

Ground::Ground(const Map& map) {
  for (const Pod& pod : map.pods) {
    for (const Host* host : lockstep::hosts(pod)) {
      hosts_.emplace(host->id, all_.size());
      pods_.push_back(pod_count_);
      all_.push_back(static_cast<int>(lockstep::device_count(*host)));
    }
    ++pod_count_;
  }
  devices_ = std::accumulate(all_.begin(), all_.end(), 0);
}

std::optional<std::size_t> Ground::find(const std::string& host) const {
  const auto found = hosts_.find(host);
  return found == hosts_.end() ? std::nullopt : std::optional(found->second);
}

bool Ground::fits_in_a_pod(const RunSpec& spec, const Free& free) const {
  std::vector<Roomy> pods(static_cast<std::size_t>(pod_count_));
  for (std::size_t host = 0; host < free.size(); ++host)
    pods[static_cast<std::size_t>(pods_[host])].count(free[host], spec);
  return std::ranges::any_of(pods, [&](const Roomy& pod) { return pod.holds(spec); });
}

bool Ground::fits(const RunSpec& spec, const Free& free) const {
  if (stays_in_one_pod(spec)) return fits_in_a_pod(spec, free);
  Roomy all;
  for (const int devices : free) all.count(devices, spec);
  return all.holds(spec);
}

}  // namespace lockstep::sim

// Small clusters and runs for tests of the pass.
#pragma once

#include <string>
#include <vector>

#include "base/format.h"
#include "map/map.h"
#include "platform/core/sched/plan.h"

namespace lockstep::sched::testing_cluster {

// Pods of hosts with so many devices each: cluster({{2, 2}, {4}}) has h0 and h1 in p0, h2 in p1.
inline map::ClusterMap cluster(const std::vector<std::vector<int>>& pods) {
  map::ClusterMap map;
  int next = 0;
  for (const auto& hosts : pods) {
    map::Pod& pod = map.pods.emplace_back();
    map::Leaf& leaf = pod.leaves.emplace_back();
    for (int devices : hosts) {
      map::Host& host = leaf.hosts.emplace_back();
      host.id = lockstep::format("h{}", next++);
      host.islands.emplace_back().devices.resize(static_cast<std::size_t>(devices));
    }
  }
  return map;
}

// So many pods of so many hosts of eight devices.
inline map::ClusterMap pods_of_eights(int pods, int hosts) {
  return cluster(std::vector<std::vector<int>>(
      static_cast<std::size_t>(pods), std::vector<int>(static_cast<std::size_t>(hosts), 8)));
}

inline model::RunId run(int number) { return {"demo", number}; }
inline Time at_second(std::int64_t seconds) { return Time(std::chrono::seconds(seconds)); }

// A run of one host.
inline PendingRun single_host_run(int number, int devices, std::int64_t arrived,
                                  std::int64_t limit) {
  return {.run = run(number),
          .devices = devices,
          .arrived = at_second(arrived),
          .time_limit = std::chrono::seconds(limit)};
}

// A run of `devices` devices where hosts have eight: whole hosts, and the rest on one more.
inline PendingRun run_of_eights(int number, int devices, std::int64_t arrived, std::int64_t limit) {
  PendingRun pending = single_host_run(number, devices, arrived, limit);
  if (devices < 8) return pending;
  pending.nodes = devices / 8;
  pending.devices = 8;
  pending.remainder = devices % 8;
  return pending;
}

// "h0:0,1"
inline std::vector<std::string> placement_texts(const std::vector<model::HostDevices>& slices) {
  std::vector<std::string> words;
  for (const model::HostDevices& slice : slices)
    words.push_back(lockstep::format("{}:{}", slice.host, fmt::join(slice.devices, ",")));
  return words;
}

inline std::vector<model::RunId> runs_of(const std::vector<Placement>& placements) {
  std::vector<model::RunId> runs;
  for (const Placement& placement : placements) runs.push_back(placement.run);
  return runs;
}

}  // namespace lockstep::sched::testing_cluster

#include "platform/core/sched/preempt/relocations.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <tuple>
#include <utility>

#include "platform/core/sched/capacity/choose_hosts.h"

namespace lockstep::sched {
namespace {

int devices_of(const AllocatedRun* allocated_run) {
  return static_cast<int>(allocated_run->allocations.front().devices.size());
}

// By host: the runs that may be moved off it, those with the fewest devices first.
std::vector<std::vector<const AllocatedRun*>> movable_runs(const HostTable& table,
                                                           AllocatedRuns& allocated_runs,
                                                           Time now) {
  std::vector<std::vector<const AllocatedRun*>> by_host(table.names.size());
  for (const auto& [end, allocated_run] : allocated_runs.by_end()) {
    if (!is_movable(*allocated_run, now)) continue;
    const std::size_t host = as_index(allocated_run->allocations.front().host);
    if (devices_of(allocated_run) < table.capacity[host]) by_host[host].push_back(allocated_run);
  }
  for (auto& runs : by_host)
    std::ranges::sort(runs, {},
                      [](const AllocatedRun* run) { return std::pair(devices_of(run), run->run); });
  return by_host;
}

// The moves that free one host.
struct HostRelocations {
  int host = 0;
  std::vector<const AllocatedRun*> runs;
  int devices = 0;  // devices that move
};

// Empty if so many devices cannot be freed there.
std::optional<HostRelocations> find_host_relocations(
    const FreeCapacity& capacity, int host, int devices,
    const std::vector<const AllocatedRun*>& movable) {
  if (!capacity.is_eligible(host)) return std::nullopt;
  HostRelocations clearing{host, {}, 0};
  for (const AllocatedRun* run : movable) {
    if (capacity.free(host) + clearing.devices >= devices) break;
    clearing.runs.push_back(run);
    clearing.devices += devices_of(run);
  }
  if (capacity.free(host) + clearing.devices < devices) return std::nullopt;
  return clearing;
}

class RelocationSearch {
 public:
  RelocationSearch(const FreeCapacity& capacity, const FreeCapacity& free_now, const Gang& head,
                   AllocatedRuns& allocated_runs, Time now)
      : capacity_after_(capacity),
        capacity_now_(free_now),
        eligible_hosts_(restricted_to(model::hardware_needs(head.shape.needs), capacity)),
        head_(head),
        movable_(movable_runs(capacity.table(), allocated_runs, now)) {}

  std::vector<Relocation> best() {
    for (int pod = 0; pod < capacity_after_.table().pod_count(); ++pod) try_pod(pod);
    return best_;
  }

 private:
  void try_pod(int pod);
  std::vector<HostRelocations> hosts_to_clear(int pod) const;
  std::vector<Relocation> place_moved_runs(const std::vector<HostRelocations>& clearings) const;

  const FreeCapacity& capacity_after_;
  const FreeCapacity& capacity_now_;
  const FreeCapacity eligible_hosts_;  // the hosts that fit if they were empty
  const Gang& head_;
  const std::vector<std::vector<const AllocatedRun*>> movable_;
  std::vector<Relocation> best_;
  std::int64_t fewest_ = 0;  // devices that best_ moves
};

void RelocationSearch::try_pod(int pod) {
  const auto cleared = hosts_to_clear(pod);
  if (cleared.empty()) return;
  std::int64_t moved = 0;
  for (const HostRelocations& clearing : cleared) moved += clearing.devices;
  if (moved > device_count(head_.shape) || (!best_.empty() && moved >= fewest_)) return;
  auto relocations = place_moved_runs(cleared);
  if (relocations.empty()) return;
  best_ = std::move(relocations);
  fewest_ = moved;
}

// The pod's hosts for the head: those with the fewest moved devices first, its remainder's last;
// empty if there are not enough.
std::vector<HostRelocations> RelocationSearch::hosts_to_clear(int pod) const {
  std::vector<HostRelocations> all;
  const auto [first, end] = capacity_after_.table().pods[as_index(pod)];
  for (int host = first; host < end; ++host)
    if (auto clearing = find_host_relocations(eligible_hosts_, host, head_.shape.devices,
                                              movable_[as_index(host)]))
      all.push_back(std::move(*clearing));
  const auto effort = [](const HostRelocations& clearing) {
    return std::tuple(clearing.devices, clearing.host);
  };
  std::ranges::sort(all, {}, effort);
  if (std::ssize(all) < head_.shape.nodes) return {};
  all.resize(as_index(head_.shape.nodes));
  if (head_.shape.remainder == 0) return all;
  std::optional<HostRelocations> rest;
  for (int host = first; host < end; ++host) {
    if (std::ranges::count(all, host, &HostRelocations::host) > 0) continue;
    auto clearing = find_host_relocations(eligible_hosts_, host, head_.shape.remainder,
                                          movable_[as_index(host)]);
    if (clearing && (!rest || effort(*clearing) < effort(*rest))) rest = std::move(clearing);
  }
  if (!rest) return {};
  all.push_back(std::move(*rest));
  return all;
}

// Destinations for all moved runs, the largest first; empty if one of them does not fit anywhere.
std::vector<Relocation> RelocationSearch::place_moved_runs(
    const std::vector<HostRelocations>& clearings) const {
  FreeCapacity capacity = capacity_now_;
  FreeCapacity after = capacity_after_;
  std::vector<const AllocatedRun*> runs;
  for (const HostRelocations& clearing : clearings) {
    capacity.close(clearing.host);  // no run moves to the head's hosts
    runs.insert(runs.end(), clearing.runs.begin(), clearing.runs.end());
  }
  std::ranges::stable_sort(runs, std::greater<>{}, devices_of);
  std::vector<Relocation> relocations;
  for (const AllocatedRun* run : runs) {
    const Gang one{shape_of(*run), PlacementScope::one_pod};
    const auto hosts = choose_hosts(restricted_to(one.shape.needs, capacity), one, Fit::best);
    if (hosts.empty()) return {};
    capacity.subtract(hosts.front(), resources_on(one.shape, 0));
    after.subtract(hosts.front(), resources_on(one.shape, 0));
    after.add_back(run->allocations.front().host, resources_of(run->allocations.front()));
    relocations.push_back({run->run, hosts.front()});
  }
  // The head may still lack cores or memory.
  return restricted_to(head_.shape.needs, after).fits(head_) ? relocations
                                                             : std::vector<Relocation>{};
}

}  // namespace

bool is_movable(const AllocatedRun& allocated_run, Time now) {
  const bool has_begun = allocated_run.last_checkpoint || allocated_run.started != now;
  return allocated_run.moves_left > 0 && allocated_run.allocations.size() == 1 && has_begun &&
         !allocated_run.leaving && allocated_run.run_class != model::RunClass::preemptible;
}

Shape shape_of(const AllocatedRun& allocated_run) {
  return {1, static_cast<int>(allocated_run.allocations.front().devices.size()), 0,
          allocated_run.needs};
}

std::vector<Relocation> find_relocations(const FreeCapacity& capacity, const FreeCapacity& free_now,
                                         const Gang& head, AllocatedRuns& allocated_runs,
                                         Time now) {
  if (head.scope != PlacementScope::one_pod || capacity.free_in_all() < device_count(head.shape))
    return {};
  return RelocationSearch(capacity, free_now, head, allocated_runs, now).best();
}

}  // namespace lockstep::sched

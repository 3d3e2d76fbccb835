#include "platform/core/sched/preempt/preemptions.h"

#include <optional>

#include "platform/core/sched/capacity/choose_hosts.h"
#include "platform/core/sched/queue/reservation.h"

namespace lockstep::sched {
namespace {

// The capacity when all leaving runs have left.
FreeCapacity capacity_after_leaving(const DeviceAllocator& allocator,
                                    AllocatedRuns& allocated_runs) {
  FreeCapacity capacity = allocator.free_capacity();
  if (allocated_runs.leaving() == 0) return capacity;
  for (const auto& [end, allocated_run] : allocated_runs.by_end())
    if (allocated_run->leaving)
      for (const HostAllocation& taken : allocated_run->allocations)
        capacity.add_back(taken.host, resources_of(taken));
  return capacity;
}

// True if the gang fits when the last leaving run, and all that are expected to end before, have
// ended. Then its devices are reserved, so a backfilled run does not change that.
bool fits_after_leaving(const Gang& gang, const DeviceAllocator& allocator,
                        AllocatedRuns& allocated_runs) {
  const auto last = allocated_runs.last_leaving();
  return last &&
         Reservation(allocator.free_capacity(), gang, Duration(0), allocated_runs, std::nullopt)
                 .start() <= *last;
}

bool needs_whole_hosts(const Shape& shape, const HostTable& table) {
  return shape.nodes > 1 || shape.devices == table.devices_per_host_max;
}

// The runs that may be paused for this run, if any.
std::optional<VictimCriteria> pause_criteria_for(const PreemptionRequest& request,
                                                 const HostTable& table, PausePolicy pause_policy) {
  if (request.in_debug_share && pause_policy != PausePolicy::never)
    return kPreemptibleOrSmallVictims;
  if (pause_policy == PausePolicy::debug_and_large && needs_whole_hosts(request.gang.shape, table))
    return VictimCriteria{.pause_behind_key = request.queue_key,
                          .project = request.project,
                          .priority = request.priority};
  return std::nullopt;
}

}  // namespace

Preemptions find_preemptions(const PreemptionRequest& request, const DeviceAllocator& allocator,
                             AllocatedRuns& allocated_runs, const SchedulingPolicy& policy,
                             Time now) {
  const bool anybody = allocated_runs.count_of(model::RunClass::preemptible) > 0 ||
                       (policy.moves && allocated_runs.movable() > 0) ||
                       (policy.pause_policy != PausePolicy::never && allocated_runs.pausable() > 0);
  if (!anybody) return {};
  if (fits_after_leaving(request.gang, allocator, allocated_runs)) return {};
  const FreeCapacity capacity = capacity_after_leaving(allocator, allocated_runs);
  const auto pause_criteria = pause_criteria_for(request, capacity.table(), policy.pause_policy);
  Preemptions found;
  const auto evict = [&](const VictimCriteria& victims) {
    found.evictions = find_evictions(capacity, request.gang, allocated_runs, policy, victims, now);
    return !found.empty();
  };
  if (allocated_runs.count_of(model::RunClass::preemptible) > 0 && evict(kPreemptibleVictims))
    return found;
  if (request.in_debug_share && pause_criteria && evict(*pause_criteria)) return found;
  if (policy.moves)
    found.moves =
        find_relocations(capacity, allocator.free_capacity(), request.gang, allocated_runs, now);
  if (found.empty() && !request.in_debug_share && pause_criteria) evict(*pause_criteria);
  return found;
}

std::vector<Relocation> find_moves_off_drained_hosts(const DeviceAllocator& allocator,
                                                     AllocatedRuns& allocated_runs,
                                                     const SchedulingPolicy& policy, Time now) {
  std::vector<Relocation> moves;
  if (allocator.drained_hosts().empty()) return moves;
  FreeCapacity capacity = allocator.free_capacity();
  for (const auto& [end, allocated_run] : allocated_runs.by_end()) {
    if (!is_movable(*allocated_run, now)) continue;
    if (allocator.state(allocated_run->allocations.front().host) != model::HostState::drained)
      continue;
    const Gang one{shape_of(*allocated_run), PlacementScope::one_pod};
    const auto hosts = choose_hosts(restricted_to(one.shape.needs, capacity), one, policy.fit);
    if (hosts.empty()) continue;
    capacity.subtract(hosts.front(), resources_on(one.shape, 0));
    moves.push_back({allocated_run->run, hosts.front()});
  }
  return moves;
}

}  // namespace lockstep::sched

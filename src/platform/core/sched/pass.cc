#include "platform/core/sched/pass.h"

#include "platform/core/sched/queue/wait_reasons.h"
#include "platform/core/sched/scheduler.h"

namespace lockstep {
namespace {

// The data of an allocation and its hosts is in many places in memory: it is prefetched while
// earlier allocations are added.
void prefetch_allocations(const Scheduler& scheduler, std::span<const Allocation> held,
                          std::size_t i) {
  constexpr std::size_t kNear = 4, kFar = 8, kFarthest = 12;
  if (i + kFarthest >= held.size()) return;
  __builtin_prefetch(held[i + kFarthest].devices.data());
  scheduler.prefetch(held[i + kFar], true);
  scheduler.prefetch(held[i + kNear], false);
  for (const HostDevices& host_devices : held[i + kNear].devices)
    __builtin_prefetch(host_devices.devices.data());
}

}  // namespace

Plan schedule_once(const ClusterMap& map, const SchedulingPolicy& policy,
                   std::span<const PendingRun> queue, std::span<const Allocation> held, Time now,
                   const OperatorSettings& settings) {
  Scheduler scheduler(map, policy);
  scheduler.set_limits(settings.limits);
  for (const auto& [host, state, why] : settings.hosts) scheduler.set_host(host, state, why);
  scheduler.reserve(0, held.size());
  for (std::size_t i = 0; i < held.size(); ++i) {
    prefetch_allocations(scheduler, held, i);
    scheduler.add_allocation(held[i]);
  }
  scheduler.reserve(queue.size(), 0);
  for (const PendingRun& pending : queue) scheduler.add_pending(pending);
  Plan plan = scheduler.schedule(now);
  plan.waiting = scheduler.waiting();
  return plan;
}

Result<void> check_fits(const ClusterMap& map, const PendingRun& pending) {
  const HostTable table(map);
  const Shape shape = shape_of(pending);
  if (placement_scope_of(restricted_to(shape.needs, FreeCapacity(table)), shape) !=
      PlacementScope::impossible)
    return {};
  return gang_too_large(table, shape);
}

}  // namespace lockstep

#include "platform/core/sched/pass.h"

#include "platform/core/sched/capacity/gang_scopes.h"
#include "platform/core/sched/queue/wait_reasons.h"
#include "platform/core/sched/scheduler.h"

namespace lockstep::sched {
Plan schedule_once(const map::ClusterMap& map, const SchedulingPolicy& policy,
                   std::span<const PendingRun> queue, std::span<const Allocation> held, Time now,
                   const OperatorSettings& settings, MapGrowth growth,
                   const std::optional<EngineHosts>& engine) {
  Scheduler scheduler(map, policy, growth, engine);
  scheduler.set_limits(settings.limits);
  for (const auto& [host, state, why] : settings.hosts) scheduler.set_host(host, state, why);
  for (const Allocation& allocation : held) scheduler.add_allocation(allocation);
  for (const PendingRun& pending : queue) scheduler.add_pending(pending);
  Plan plan = scheduler.schedule(now);
  plan.waiting = scheduler.waiting();
  return plan;
}

namespace {

bool fits_on_empty(const HostTable& table, const Shape& shape) {
  return GangScopes(table).scope_of(shape) != PlacementScope::impossible;
}

}  // namespace

Result<void> check_fits(const map::ClusterMap& map, const PendingRun& pending) {
  const HostTable table(map);
  const Shape shape = shape_of(pending);
  if (fits_on_empty(table, shape)) return {};
  return gang_too_large(table, shape);
}

Result<void> check_fits(const HostTable& table, const HostTable& of_engine,
                        const PendingRun& pending) {
  const Shape shape = shape_of(pending);
  if (fits_on_empty(table, shape) || fits_on_empty(of_engine, shape)) return {};
  return gang_too_large(table, &of_engine, shape);
}

}  // namespace lockstep::sched

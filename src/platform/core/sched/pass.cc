#include "platform/core/sched/pass.h"

#include "platform/core/sched/reasons.h"
#include "platform/core/sched/scheduler.h"

namespace lockstep {

Plan pass(const Map& map, const SchedulingPolicy& policy, std::span<const Want> queue,
          std::span<const Holding> held, Time now, const Conditions& conditions) {
  Scheduler scheduler(map, policy);
  scheduler.set_limits(conditions.limits);
  for (const auto& [host, state, why] : conditions.hosts) scheduler.set_host(host, state, why);
  for (const Holding& holding : held) scheduler.hold(holding);
  scheduler.expect_more(queue.size());
  for (const Want& want : queue) scheduler.submit(want);
  Plan plan = scheduler.decide(now);
  plan.waiting = scheduler.waiting();
  return plan;
}

Result<void> check_fits(const Map& map, const Want& want) {
  const HostTable table(map);
  const Shape shape = shape_of(want);
  if (reach_of(seen_by(shape.needs, Room(table)), shape) != Reach::nowhere) return {};
  return too_large(table, shape);
}

}  // namespace lockstep

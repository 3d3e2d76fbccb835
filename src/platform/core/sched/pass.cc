#include "platform/core/sched/pass.h"

#include "platform/core/sched/reasons.h"
#include "platform/core/sched/scheduler.h"

namespace lockstep {
namespace {

// What is read of a holding, and of its hosts, lies in many places: all that is fetched while those
// before it are told.
void fetch_ahead(const Scheduler& scheduler, std::span<const Holding> held, std::size_t i) {
  constexpr std::size_t kNear = 4, kFar = 8, kFarthest = 12;
  if (i + kFarthest >= held.size()) return;
  __builtin_prefetch(held[i + kFarthest].slices.data());
  scheduler.fetch(held[i + kFar], true);
  scheduler.fetch(held[i + kNear], false);
  for (const Slice& slice : held[i + kNear].slices) __builtin_prefetch(slice.devices.data());
}

}  // namespace

Plan pass(const Map& map, const SchedulingPolicy& policy, std::span<const Want> queue,
          std::span<const Holding> held, Time now, const Conditions& conditions) {
  Scheduler scheduler(map, policy);
  scheduler.set_limits(conditions.limits);
  for (const auto& [host, state, why] : conditions.hosts) scheduler.set_host(host, state, why);
  scheduler.expect_more(0, held.size());
  for (std::size_t i = 0; i < held.size(); ++i) {
    fetch_ahead(scheduler, held, i);
    scheduler.hold(held[i]);
  }
  scheduler.expect_more(queue.size(), 0);
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

#include "platform/core/step/step.h"

#include <algorithm>

#include "platform/core/step/handlers/draft.h"
#include "platform/core/step/handlers/event_handlers.h"

namespace lockstep::step {
namespace {

bool reads_clock(const model::Event& event) {
  return std::holds_alternative<model::ClockChanged>(event);
}

}  // namespace

Result<Outcome> step(IncrementalScheduler& scheduler, const model::State& state,
                     std::span<const model::Event> events, Time now) {
  Draft draft(state, now);
  for (const model::Event& event : events) {
    TRY(std::visit([&](const auto& each) { return handle_event(draft, each); }, event));
    if (std::holds_alternative<model::DaemonStarted>(event))
      scheduler.reset();  // the map may have changed
  }
  if (draft.map_changed()) scheduler.reset();
  // All known times have shifted and nothing else changed, so the next event decides.
  if (std::ranges::any_of(events, reads_clock)) {
    scheduler.reset();
    return draft.finish();
  }
  if (scheduler.sync(draft) && state.engine_has_listed) scheduler.schedule(draft);
  return draft.finish();
}

Result<Outcome> step(IncrementalScheduler& scheduler, const model::State& state,
                     const model::Event& event, Time now) {
  return step(scheduler, state, std::span(&event, 1), now);
}

Result<Outcome> step(const model::State& state, const model::Event& event, Time now) {
  IncrementalScheduler scheduler;
  return step(scheduler, state, event, now);
}

}  // namespace lockstep::step

#include "platform/core/step/step.h"

#include <algorithm>

#include "platform/core/step/draft.h"
#include "platform/core/step/event_handlers.h"

namespace lockstep {
namespace {

bool reads_clock(const Event& event) { return std::holds_alternative<ClockRead>(event); }

}  // namespace

Result<Outcome> step(Queue& queue, const State& state, std::span<const Event> events, Time now) {
  Draft draft(state, now);
  for (const Event& event : events) {
    TRY(std::visit([&](const auto& what) { return handle(draft, what); }, event));
    if (std::holds_alternative<DaemonStarted>(event)) queue.forget();  // maybe with another map
  }
  // All moments that it was told of have moved; nothing else has, so the next event decides.
  if (std::ranges::any_of(events, reads_clock)) {
    queue.forget();
    return draft.finish();
  }
  if (queue.follow(draft) && state.engine_was_heard) queue.pass(draft);
  return draft.finish();
}

Result<Outcome> step(Queue& queue, const State& state, const Event& event, Time now) {
  return step(queue, state, std::span(&event, 1), now);
}

Result<Outcome> step(const State& state, const Event& event, Time now) {
  Queue queue;
  return step(queue, state, event, now);
}

}  // namespace lockstep

#include "platform/core/step/step.h"

#include "platform/core/step/draft.h"
#include "platform/core/step/event_handlers.h"

namespace lockstep {

Result<Outcome> step(Queue& queue, const State& state, std::span<const Event> events, Time now) {
  Draft draft(state, now);
  for (const Event& event : events) {
    TRY(std::visit([&](const auto& what) { return handle(draft, what); }, event));
    if (std::holds_alternative<DaemonStarted>(event)) queue.forget();  // maybe with another map
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

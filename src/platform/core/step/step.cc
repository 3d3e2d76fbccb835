#include "platform/core/step/step.h"

#include "platform/core/step/draft.h"
#include "platform/core/step/event_handlers.h"

namespace lockstep {

Result<Outcome> step(const State& state, const Event& event, Time now) {
  Draft draft(state, now);
  TRY(std::visit([&](const auto& what) { return handle(draft, what); }, event));
  const bool restarted = std::holds_alternative<DaemonStarted>(event);  // maybe with another map
  if (restarted || queue_may_move(draft)) run_queue(draft);
  return draft.finish();
}

}  // namespace lockstep

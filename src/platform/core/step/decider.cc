#include "platform/core/step/decider.h"

#include <utility>

namespace lockstep {

Decider::Decider(State state, const SchedulingPolicy& policy,
                 IncrementalScheduler::ReasonUpdates reasons)
    : state_(std::move(state)), scheduler_(policy, reasons) {}

Result<Outcome> Decider::propose(const Event& event, Time now) {
  return propose(std::span(&event, 1), now);
}

Result<Outcome> Decider::propose(std::span<const Event> events, Time now) {
  if (proposed_) discard();
  auto outcome = step(scheduler_, state_, events, now);
  proposed_ = outcome.has_value();
  return outcome;
}

void Decider::accept(const std::vector<Change>& changes) {
  for (const Change& change : changes) apply(state_, change);
  proposed_ = false;
}

void Decider::discard() {
  scheduler_.reset();
  proposed_ = false;
}

}  // namespace lockstep

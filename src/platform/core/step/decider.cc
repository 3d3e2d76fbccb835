#include "platform/core/step/decider.h"

#include <utility>

namespace lockstep::step {

Decider::Decider(model::State state, const sched::SchedulingPolicy& policy,
                 IncrementalScheduler::ReasonUpdates reasons)
    : state_(std::move(state)), scheduler_(policy, reasons) {}

Result<Outcome> Decider::propose(const model::Event& event, Time now) {
  return propose(std::span(&event, 1), now);
}

Result<Outcome> Decider::propose(std::span<const model::Event> events, Time now) {
  if (proposed_) discard();
  auto outcome = step(scheduler_, state_, events, now);
  proposed_ = outcome.has_value();
  return outcome;
}

void Decider::accept(const std::vector<model::Change>& changes) {
  for (const model::Change& change : changes) model::apply(state_, change);
  proposed_ = false;
}

void Decider::discard() {
  scheduler_.reset();
  proposed_ = false;
}

void Decider::set_map(map::ClusterMap map) {
  state_.map = std::move(map);
  discard();
}

void Decider::add_ended_run(const model::RunRows& rows) {
  if (proposed_) discard();
  model::add_ended_run(state_, rows);
}

void Decider::drop_ended_run(const model::RunId& run) {
  if (proposed_) discard();
  model::drop_ended_run(state_, run);
}

void Decider::drop_ended_runs(Time ended_before) {
  if (proposed_) discard();
  model::drop_ended_runs(state_, ended_before);
}

}  // namespace lockstep::step

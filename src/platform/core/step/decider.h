// Decider: the state, and the decisions on it from one event to the next. A proposal changes no
// row, so that the caller can store it first:
//
//   Decider decider(state);
//   Outcome outcome = TRY(decider.propose(event, now));
//   if (store(outcome.changes)) decider.accept(outcome.changes);
//
// It is incremental: it keeps the scheduler and updates it only with the rows that an event
// changes. Each proposal equals that of step() from the state alone (property_test.cc).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "platform/core/model/ended_runs.h"
#include "platform/core/model/event.h"
#include "platform/core/model/state.h"
#include "platform/core/step/starting/incremental_scheduler.h"
#include "platform/core/step/step.h"

namespace lockstep::step {

class Decider {
 public:
  explicit Decider(
      model::State state, const sched::SchedulingPolicy& policy = step_policy(),
      IncrementalScheduler::ReasonUpdates reasons = IncrementalScheduler::ReasonUpdates::each_pass);

  // Why it refuses an event is in the error. A proposal that was not accepted is dropped.
  Result<Outcome> propose(const model::Event& event, Time now);
  // Several events at one time, decided as one: one refusal refuses all.
  Result<Outcome> propose(std::span<const model::Event> events, Time now);
  // Applies the changes of the last proposal.
  void accept(const std::vector<model::Change>& changes);
  // The last proposal could not be stored.
  void discard();

  const model::State& state() const { return state_; }
  // As of the last proposal; empty after discard().
  const IncrementalScheduler& scheduler() const { return scheduler_; }

  // Facts that are no rows.
  void set_run_numbers(const std::map<std::string, std::int64_t>& numbers) {
    state_.numbers = numbers;
  }
  // The hosts that the engine sees, if no row has them (map/grown_map.h).
  void set_map(map::ClusterMap map);
  void set_engine_has_listed() { state_.engine_has_listed = true; }
  // Ended runs, which affect no decision but those about themselves, and come from the store when
  // needed (model/ended_runs.h).
  void add_ended_run(const model::RunRows& rows);
  void drop_ended_run(const model::RunId& run);
  void drop_ended_runs(Time ended_before);
  // A row that no event made: the identity of the store.
  void set_store(const model::StoreRow& store) { model::apply(state_, store); }

 private:
  model::State state_;
  IncrementalScheduler scheduler_;
  bool proposed_ = false;  // the scheduler is ahead of the state
};

}  // namespace lockstep::step

#include "platform/core/step/starting/dry_run.h"

#include <algorithm>

#include "platform/core/step/step.h"

namespace lockstep::step {
namespace {

// The new run is the only row with version 1.
const model::Run* new_run(const std::vector<model::Change>& changes) {
  for (const model::Change& change : changes)
    if (const model::Run* run = std::get_if<model::Run>(&change); run && run->version == 1)
      return run;
  return nullptr;
}

void read_devices(const std::vector<model::Change>& changes, const model::RunId& id,
                  DryRunResult& result) {
  for (const model::Change& change : changes)
    if (const model::Node* node = std::get_if<model::Node>(&change);
        node && node->id.attempt.run == id)
      result.devices.push_back({node->host, node->devices});
}

void read_preempted(const model::State& state, const std::vector<model::Change>& changes,
                    DryRunResult& result) {
  for (const model::Change& change : changes) {
    const model::Attempt* attempt = std::get_if<model::Attempt>(&change);
    if (!attempt || attempt->state != model::AttemptState::draining ||
        !model::is_preemption(attempt->cause))
      continue;
    const auto nodes = model::nodes_of(state, attempt->id);
    result.preempted.push_back({attempt->id.run, attempt->cause,
                                nodes.empty() ? "" : nodes.front()->host,
                                attempt->move_destination});
  }
}

}  // namespace

Result<DryRunResult> dry_run(const model::State& state, const model::SubmitRun& event, Time now) {
  IncrementalScheduler scheduler;
  const Outcome outcome = TRY(step(scheduler, state, event, now));
  const model::Run* run = new_run(outcome.changes);
  LS_CHECK(run != nullptr);
  DryRunResult result;
  result.reason = run->reason;
  read_devices(outcome.changes, run->id, result);
  read_preempted(state, outcome.changes, result);
  if (!result.devices.empty()) {
    result.reason.clear();
    // The engine's own queue may be long.
    if (!result.devices.front().host.empty()) result.starts = {now, now};
    return result;
  }
  const auto& waiting = scheduler.waiting();
  const auto found = std::ranges::find(waiting, run->id, &sched::WaitingRun::run);
  result.runs_ahead = static_cast<std::size_t>(found - waiting.begin());
  if (found == waiting.end()) {  // it would wait for something other than devices
    result.starts.expected = run->not_before;
    return result;
  }
  result.reason = found->reason;
  result.blocker = found->blocker;
  result.starts = scheduler.start_times()[result.runs_ahead];
  return result;
}

}  // namespace lockstep::step

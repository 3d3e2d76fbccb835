// The queue, as the pass sees it, and the attempts that come out of it.
#include <algorithm>
#include <utility>

#include "base/format.h"
#include "platform/core/sched/scheduler.h"
#include "platform/core/step/ending.h"
#include "platform/core/step/event_handlers.h"

namespace lockstep {
namespace {

// What is left of its time-out once its attempts so far are counted.
Duration limit_of(const Run& run) { return run.spec.timeout - run.charged; }

// A run that lost an attempt stands again where it stood. One that pauses is passed over.
std::vector<Want> queued_runs(const Draft& draft) {
  std::vector<Want> wants;
  for (const RunId& id : draft.open_runs()) {
    const Run& run = *draft.runs.find(id);
    if (run.state != RunState::queued || run.not_before) continue;
    wants.push_back({.run = id,
                     .nodes = run.spec.nodes,
                     .devices = run.spec.devices,
                     .arrived = run.queued,
                     .limit = limit_of(run),
                     .used = run.charged});
  }
  return wants;
}

// Reckoned from when it was placed: then time alone does not change it, and what was decided stands
// until something happens. One that drains may end at any moment.
Time expected_end_of(const Attempt& attempt, const Run& run) {
  return attempt.draining.value_or(attempt.created + limit_of(run));
}

// A gang holds all its devices until the last of its nodes is released.
void hold_devices(const Draft& draft, Scheduler& scheduler) {
  for (const RunId& id : draft.open_runs()) {
    const Attempt* attempt = draft.live_attempt(id);
    if (!attempt) continue;
    Holding holding{id, {}, expected_end_of(*attempt, *draft.runs.find(id))};
    for (const Node* node : draft.nodes_of(attempt->id))
      holding.slices.push_back({node->host, node->devices});
    scheduler.hold(holding);
  }
}

void start_attempt(Draft& draft, Placement placement) {
  Run& run = draft.runs.edit(placement.run);
  // Of a run that goes on, the reason stays to be seen: "rank 3 ... was killed ...; attempt 2 goes
  // on".
  const Attempt* before = draft.attempts.find({run.id, run.epoch});
  run.reason = before ? format("{}; {}", before->reason, what_follows(run, before->cause, {})) : "";
  ++run.epoch;
  run.state = RunState::starting;
  Attempt attempt;
  attempt.id = {run.id, run.epoch};
  attempt.created = draft.now();
  for (Slice& slice : placement.slices) {
    Node node;
    node.id = {attempt.id, static_cast<int>(&slice - placement.slices.data())};
    node.host = std::move(slice.host);
    node.devices = std::move(slice.devices);
    node.last_heard = draft.now();
    draft.act(LaunchNode{node.id});
    draft.nodes.add(std::move(node));
  }
  draft.attempts.add(std::move(attempt));
}

}  // namespace

// A run that no longer starts or runs has freed its devices; one that begins to drain soon will.
bool queue_may_move(const Draft& draft) {
  const auto moves = [&](const auto& entry) {
    const auto& [id, run] = entry;
    const Run* before = draft.runs.before(id);
    return !before || before->state != run.state || before->not_before != run.not_before;
  };
  const auto drains = [&](const auto& entry) {
    const Attempt* before = draft.attempts.before(entry.first);
    return before && before->draining != entry.second.draining;
  };
  return std::ranges::any_of(draft.runs.changed(), moves) ||
         std::ranges::any_of(draft.attempts.changed(), drains);
}

void run_queue(Draft& draft) {
  const auto queue = queued_runs(draft);
  if (queue.empty()) return;
  Scheduler scheduler(draft.map(), policies::kOurs);
  hold_devices(draft, scheduler);
  for (const Want& want : queue) scheduler.submit(want);
  // Again until nobody starts: one that passes the head may leave another a place that it had not.
  for (auto starts = scheduler.decide(draft.now()).placements; !starts.empty();
       starts = scheduler.decide(draft.now()).placements)
    for (Placement& start : starts) start_attempt(draft, std::move(start));
  for (WaitingRun& waiting : scheduler.waiting())
    if (draft.runs.find(waiting.run)->reason != waiting.reason)  // an edit copies the row
      draft.runs.edit(waiting.run).reason = std::move(waiting.reason);
}

}  // namespace lockstep

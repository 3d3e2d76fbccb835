// The queue, as the pass sees it, and the attempts that come out of it.
#include <algorithm>

#include "base/format.h"
#include "platform/core/sched/pass.h"
#include "platform/core/step/ending.h"
#include "platform/core/step/event_handlers.h"

namespace lockstep {
namespace {

// A run that lost an attempt stands again where it stood. One that pauses is passed over.
std::vector<Want> queued_runs(const Draft& draft) {
  std::vector<const Run*> queue;
  for (const RunId& id : draft.open_runs()) {
    const Run* run = draft.runs.find(id);
    if (run->state == RunState::queued && !run->not_before) queue.push_back(run);
  }
  std::ranges::stable_sort(queue, {}, &Run::queued);
  std::vector<Want> wants;
  for (const Run* run : queue) wants.push_back({run->id, run->spec.nodes, run->spec.devices});
  return wants;
}

// A gang holds all its devices until the last of its nodes is released. In the order in which they
// were placed; one pass may have placed several.
std::vector<Holding> held_devices(const Draft& draft) {
  std::vector<const Attempt*> live;
  for (const RunId& id : draft.open_runs())
    if (const Attempt* attempt = draft.live_attempt(id)) live.push_back(attempt);
  std::ranges::stable_sort(live, {}, [&](const Attempt* attempt) {
    return std::pair(attempt->created, draft.runs.find(attempt->id.run)->queued);
  });
  std::vector<Holding> held;
  for (const Attempt* attempt : live) {
    Holding& holding = held.emplace_back(Holding{attempt->id.run, {}});
    for (const Node* node : draft.nodes_of(attempt->id))
      holding.slices.push_back({node->host, node->devices});
  }
  return held;
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

// A run that no longer starts or runs has freed its devices.
bool queue_may_move(const Draft& draft) {
  return std::ranges::any_of(draft.runs.changed(), [&](const auto& entry) {
    const auto& [id, run] = entry;
    const Run* before = draft.runs.before(id);
    return !before || before->state != run.state || before->not_before != run.not_before;
  });
}

void run_queue(Draft& draft) {
  const auto queue = queued_runs(draft);
  if (queue.empty()) return;
  Plan plan = pass(draft.map(), queue, held_devices(draft));
  for (Placement& placement : plan.placements) start_attempt(draft, std::move(placement));
  for (const WaitingRun& waiting : plan.waiting)
    draft.runs.edit(waiting.run).reason = waiting.reason;
}

}  // namespace lockstep

#include "platform/core/step/queue.h"

#include <set>
#include <utility>

#include "base/format.h"
#include "platform/core/step/draft.h"
#include "platform/core/step/ending.h"

namespace lockstep {
namespace {

// What is left of its time-out once its attempts so far are counted.
Duration limit_of(const Run& run) { return run.spec.timeout - run.charged; }

// A run that lost an attempt stands again where it stood.
Want want_of(const Run& run) {
  return {.run = run.id,
          .nodes = run.spec.nodes,
          .devices = run.spec.devices,
          .remainder = run.spec.remainder,
          .arrived = run.queued,
          .limit = limit_of(run),
          .used = run.charged};
}

// A gang holds all its devices until the last of its nodes is released. Its end is reckoned from
// when it was placed: then time alone does not change it, and what was decided stands until
// something happens. One that drains may end at any moment.
Holding holding_of(const Draft& draft, const Run& run, const Attempt& attempt) {
  Holding holding{.run = run.id,
                  .slices = {},
                  .expected_end = attempt.draining.value_or(attempt.created + limit_of(run)),
                  .moves_left = 0,
                  .started = attempt.created};
  for (const Node* node : draft.nodes_of(attempt.id))
    holding.slices.push_back({node->host, node->devices});
  return holding;
}

// Runs of which a row that decides anything was edited. Nodes stay where they are.
std::set<RunId> edited_runs(const Draft& draft) {
  std::set<RunId> edited;
  for (const auto& [id, run] : draft.runs.changed()) edited.insert(id);
  for (const auto& [id, attempt] : draft.attempts.changed()) edited.insert(id.run);
  return edited;
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

void Queue::forget() {
  scheduler_.reset();
  told_.clear();
  waiting_.reset();
}

bool Queue::follow(const Draft& draft) {
  if (!scheduler_) {
    read_all(draft);
    return true;
  }
  bool changed = false;
  for (const RunId& run : edited_runs(draft)) changed = follow(draft, run) || changed;
  return changed;
}

void Queue::read_all(const Draft& draft) {
  scheduler_.emplace(draft.map(), policy_);
  for (const RunId& run : draft.open_runs()) follow(draft, run);
}

bool Queue::follow(const Draft& draft, const RunId& run) {
  Told now = of_rows(draft, run);
  Told& before = told_[run];
  const bool changed = before != now;
  if (changed) {
    tell(run, before, now);
    waiting_.reset();
  }
  if (std::holds_alternative<std::monostate>(now))
    told_.erase(run);
  else
    before = std::move(now);
  return changed;
}

// One that pauses is passed over.
Queue::Told Queue::of_rows(const Draft& draft, const RunId& id) {
  const Run& run = *draft.runs.find(id);
  if (const Attempt* attempt = draft.live_attempt(id)) return holding_of(draft, run, *attempt);
  if (run.state != RunState::queued || run.not_before) return {};
  return want_of(run);
}

void Queue::tell(const RunId& run, const Told& before, const Told& now) {
  const auto* held = std::get_if<Holding>(&before);
  const auto* holds = std::get_if<Holding>(&now);
  if (held && holds && held->slices == holds->slices)
    return scheduler_->expect(run, holds->expected_end);
  if (held) scheduler_->release(run);
  if (std::holds_alternative<Want>(before)) scheduler_->withdraw(run);
  if (holds) scheduler_->hold(*holds);
  if (const auto* wants = std::get_if<Want>(&now)) scheduler_->submit(*wants);
}

void Queue::pass(Draft& draft) {
  for (Placement& placement : scheduler_->decide(draft.now()).placements)
    start(draft, std::move(placement));
  if (reasons_ == Reasons::when_asked) return;
  for (const WaitingRun& waiting : this->waiting())
    if (draft.runs.find(waiting.run)->reason != waiting.reason)  // an edit copies the row
      draft.runs.edit(waiting.run).reason = waiting.reason;
}

// The scheduler counts it as holding what it was given.
void Queue::start(Draft& draft, Placement placement) {
  const RunId run = placement.run;
  start_attempt(draft, std::move(placement));
  told_[run] = of_rows(draft, run);
  waiting_.reset();
}

const std::vector<WaitingRun>& Queue::waiting() const {
  if (!waiting_) waiting_ = scheduler_ ? scheduler_->waiting() : std::vector<WaitingRun>();
  return *waiting_;
}

std::vector<Holding> Queue::holdings() const {
  std::vector<Holding> held;
  for (const auto& [run, told] : told_)
    if (const auto* holding = std::get_if<Holding>(&told)) held.push_back(*holding);
  return held;
}

}  // namespace lockstep

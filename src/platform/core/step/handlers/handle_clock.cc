// The wall clock was set, or may have been.
//
// Rows hold wall-clock times. The controller computes time limits, silence, pauses and the queue
// order as differences between such times and now. So when the clock is set by some amount, all
// times of open runs shift by that amount, and every difference stays the same. Times that users
// named stay: "not before 12:00" means 12:00. The history of ended runs stays, too.
//
// After a reboot the shift of the clock is unknown. Then no time may be in the future, or whatever
// counts from it would wait until that time.
#include <algorithm>

#include "platform/core/step/ending/attempt_end.h"
#include "platform/core/step/handlers/event_handlers.h"

namespace lockstep::step {
namespace {

// Calls move(moment) for each time of the run that something counts from, except the end of its
// back-off.
template <class Move>
void shift_times(Draft& draft, model::Run& run, const Move& move) {
  const auto move_if = [&](std::optional<Time>& moment) {
    if (moment) move(*moment);
  };
  move(run.queued);
  move_if(run.started);
  const model::AttemptId id{run.id, run.epoch};
  if (!draft.attempts.find(id)) return;
  model::Attempt& attempt = draft.attempts.edit(id);
  move(attempt.created);
  for (auto* moment : {&attempt.admitted, &attempt.started, &attempt.draining, &attempt.ended,
                       &attempt.last_checkpoint, &attempt.idle_warned})
    move_if(*moment);
  if (attempt.charge) {
    const Duration window = attempt.charge->until - attempt.charge->from;
    move(attempt.charge->from);
    attempt.charge->until = attempt.charge->from + window;
  }
  for (const model::Node* found : draft.nodes_of(id)) {
    model::Node& node = draft.nodes.edit(found->id);
    move(node.last_heartbeat);
    move_if(node.last_progress);
    move_if(node.unreachable_since);
    move_if(node.kill_requested_at);
    move_if(node.idle_since);
    for (model::Rank& rank : node.ranks) {
      move_if(rank.ended);
      move_if(rank.stalled_since);
      move_if(rank.activity_since);
    }
  }
}

template <class Move>
void shift_orphan_times(Draft& draft, const Move& move) {
  for (const auto& [name, seen] : draft.orphans.all()) {
    model::Orphan& orphan = draft.orphans.edit(name);
    move(orphan.expected_end);
    for (auto* moment : {&orphan.stop_requested_at, &orphan.kill_requested_at})
      if (*moment) move(**moment);
  }
}

template <class Move>
void shift_given_up_times(Draft& draft, const Move& move) {
  for (const auto& [id, seen] : draft.given_up.all()) {
    model::GivenUpNode& node = draft.given_up.edit(id);
    move(node.since);
    move(node.last_call);
    if (node.kill_requested_at) move(*node.kill_requested_at);
  }
}

template <class Move>
void shift_bucket_times(Draft& draft, const Move& move) {
  for (const auto& [project, bucket] : draft.buckets.all()) move(draft.buckets.edit(project).time);
}

bool is_backing_off(const model::Run& run) {
  return run.not_before && run.not_before != run.spec.not_before;
}

void shift_all_times(Draft& draft, Duration by) {
  const auto move = [&](Time& moment) { moment += by; };
  for (const model::RunId& id : draft.open_runs()) {
    model::Run& run = draft.runs.edit(id);
    shift_times(draft, run, move);
    if (is_backing_off(run)) move(*run.not_before);
  }
  shift_orphan_times(draft, move);
  shift_given_up_times(draft, move);
  shift_bucket_times(draft, move);
  for (const auto& [id, row] : draft.hosts.all()) {
    if (row.losses.empty()) continue;
    for (model::HostLoss& loss : draft.hosts.edit(id).losses) move(loss.time);
  }
}

void cap_times_at_now(Draft& draft) {
  const auto move = [&](Time& moment) { moment = std::min(moment, draft.now()); };
  for (const model::RunId& id : draft.open_runs()) {
    model::Run& run = draft.runs.edit(id);
    shift_times(draft, run, move);
    if (is_backing_off(run))
      run.not_before = std::min(*run.not_before, draft.now() + draft.settings().retry_pause_max);
  }
  shift_orphan_times(draft, move);
  shift_given_up_times(draft, move);
  shift_bucket_times(draft, move);
}

}  // namespace

Result<void> handle_event(Draft& draft, const model::ClockChanged& event) {
  if (const auto by = model::clock_shift(draft.clock, event.clock))
    shift_all_times(draft, *by);
  else
    cap_times_at_now(draft);
  draft.clock = event.clock;
  return {};
}

}  // namespace lockstep::step
